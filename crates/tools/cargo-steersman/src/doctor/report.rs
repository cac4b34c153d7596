//! Machine: writes findings as lines.

use crate::doctor::finding::{Level, Section};

/// Returns the lines of all findings, grouped by subject, and a summary.
pub(crate) fn lines(sections: &[Section]) -> Vec<String> {
    let mut lines = Vec::new();
    for section in sections
        .iter()
        .filter(|section| !section.findings.is_empty())
    {
        lines.push(section.subject.to_owned());
        for finding in &section.findings {
            lines.push(format!("  {:<7}  {}", finding.level.word(), finding.text));
            lines.extend(finding.advice.iter().map(|line| format!("{:11}{line}", "")));
        }
    }
    let (problems, unknown) = (
        count(sections, Level::Problem),
        count(sections, Level::Unknown),
    );
    let good = count(sections, Level::Good);
    let plural = if problems == 1 { "" } else { "s" };
    lines.push(format!(
        "{problems} problem{plural}, {unknown} unknown, {good} ok"
    ));
    lines
}

/// Returns the number of findings of a level.
pub(crate) fn count(sections: &[Section], level: Level) -> usize {
    let findings = sections.iter().flat_map(|section| &section.findings);
    findings.filter(|finding| finding.level == level).count()
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Problem => "problem",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Finding;

    #[test]
    fn lines_are_aligned_and_counted() {
        let section = |subject, findings| Section { subject, findings };
        let sections = [
            section("kinds", vec![Finding::good("a is served")]),
            section("webhooks", Vec::new()),
            section(
                "roles",
                vec![Finding::problem("b is missing", "add it:").advise("  rules: []")],
            ),
        ];
        let expected = [
            "kinds",
            "  ok       a is served",
            "roles",
            "  problem  b is missing",
            "           add it:",
            "             rules: []",
            "1 problem, 0 unknown, 1 ok",
        ];
        assert_eq!(lines(&sections), expected);
    }
}
