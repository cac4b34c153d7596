//! Machine: formats findings as lines of text.

use crate::doctor::finding::{FindingLevel, Section};
use crate::plural::plural;

/// Returns the lines of all findings, grouped by subject, and a summary.
pub(crate) fn lines(sections: &[Section]) -> Vec<String> {
    let mut lines = Vec::new();
    for section in sections {
        let findings = &section.findings.0;
        if !findings.is_empty() {
            lines.push(section.subject.to_owned());
        }
        for finding in findings {
            let level = finding.level.to_string();
            lines.push(format!("  {level:<7}  {}", finding.text));
            lines.extend(finding.advice.iter().map(|line| format!("{:11}{line}", "")));
        }
    }
    let problems = count(sections, FindingLevel::Problem);
    let unknown = count(sections, FindingLevel::Unknown);
    let good = count(sections, FindingLevel::Good);
    let plural = plural(problems);
    let summary = format!("{problems} problem{plural}, {unknown} unknown, {good} ok");
    lines.push(summary);
    lines
}

pub(crate) fn count(sections: &[Section], level: FindingLevel) -> usize {
    let findings = sections.iter().flat_map(|section| &section.findings.0);
    findings.filter(|finding| finding.level == level).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{DoctorFinding, Findings};

    #[test]
    fn lines_are_aligned_and_counted() {
        let section = |subject, findings| Section {
            subject,
            findings: Findings(findings),
        };
        let sections = [
            section("kinds", vec![DoctorFinding::good("a is served")]),
            section("webhooks", Vec::new()),
            section(
                "roles",
                vec![DoctorFinding::problem("b is missing", "add it:").advise("  rules: []")],
            ),
        ];
        let expected = [
            "kinds", "  ok       a is served", "roles", "  problem  b is missing",
            "           add it:", "             rules: []", "1 problem, 0 unknown, 1 ok",
        ];
        assert_eq!(lines(&sections), expected);
    }
}
