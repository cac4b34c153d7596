//! Machine: prints a report as JUnit XML.

use std::time::Duration;

use super::explore_report::{ExploreReport, PointOutcome, PointReport};
use super::kinds::kind_name;
use super::markup::{escaped, escaped_attribute};
use crate::finding::Finding;
use crate::perturbation::PerturbationKind;
use crate::story::{seconds, sentence_of, tell};

/// A test case.
struct TestCase {
    kind: &'static str,
    name: String,
    /// What another desired state changes.
    change: String,
    time: Duration,
    result: CaseResult,
}

/// The result of a test case.
enum CaseResult {
    Passed,
    Skipped(&'static str),
    /// The elements of the failures.
    Failed(String),
}

/// A finding with its texts.
struct ToldFinding<'a> {
    finding: &'a Finding,
    name: String,
    sentence: String,
    story: String,
}

impl ExploreReport {
    /// Returns the report as JUnit XML, which CI systems show: one suite, with one test case for each point that was
    /// tried and one for the undisturbed run. A failure has the story of its finding; points that were not reached are
    /// skipped test cases.
    #[must_use]
    pub fn junit(&self) -> String {
        let cases = cases(self);
        let failures = cases
            .iter()
            .filter(|case| matches!(case.result, CaseResult::Failed(_)));
        let skipped = cases
            .iter()
            .filter(|case| matches!(case.result, CaseResult::Skipped(_)));
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
            cases.len(),
            failures.count(),
            skipped.count(),
            seconds(self.time),
        );
        let cases: String = cases.iter().map(TestCase::xml).collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites name=\"steersman explore\" {counts}>\n  \
             <testsuite name=\"{}\" {counts}>\n    \
             <properties>\n      \
             <property name=\"operator\" value=\"{}\"/>\n      \
             <property name=\"worlds\" value=\"{}\"/>\n    \
             </properties>\n\
             {cases}    \
             <system-out>{}</system-out>\n  \
             </testsuite>\n\
             </testsuites>\n",
            escaped_attribute(&self.scenario),
            escaped_attribute(&self.operator),
            self.worlds,
            escaped(&self.summary()),
        )
    }
}

impl TestCase {
    fn xml(&self) -> String {
        let Self {
            kind,
            name,
            change,
            time,
            result,
        } = self;
        let name = match change.as_str() {
            "" => escaped_attribute(name),
            change => escaped_attribute(&format!("{name} ({change})")),
        };
        let head = format!(
            "    <testcase classname=\"{kind}\" name=\"{name}\" time=\"{}\"",
            seconds(*time)
        );
        match result {
            CaseResult::Passed => format!("{head}/>\n"),
            CaseResult::Skipped(why) => {
                format!("{head}>\n      <skipped message=\"{why}\"/>\n    </testcase>\n")
            }
            CaseResult::Failed(failures) => format!("{head}>\n{failures}    </testcase>\n"),
        }
    }
}

/// Returns a case for each point, and for each finding without a point.
fn cases(report: &ExploreReport) -> Vec<TestCase> {
    let told: Vec<ToldFinding<'_>> = report
        .findings
        .iter()
        .map(|finding| ToldFinding {
            finding,
            name: finding.name(),
            sentence: sentence_of(finding),
            story: tell(finding, &report.command_for(finding)),
        })
        .collect();
    let cases: Vec<TestCase> = report
        .points
        .iter()
        .map(|point| case_of(point, &told))
        .collect();
    // A pair that was reduced to one perturbation has the name of no point, and neither has the undisturbed run.
    let mut others: Vec<TestCase> = Vec::new();
    if report.worlds > 0 {
        let outcome = PointOutcome::Passed;
        others.push(case_of(
            &PointReport {
                perturbations: Vec::new(),
                change: String::new(),
                outcome,
                time: Duration::ZERO,
                log: 0,
            },
            &told,
        ));
    }
    for ToldFinding { finding, .. } in &told {
        let perturbations = finding.perturbations.clone();
        let outcome = PointOutcome::Found;
        let case = case_of(
            &PointReport {
                perturbations,
                change: String::new(),
                outcome,
                time: Duration::ZERO,
                log: 0,
            },
            &told,
        );
        if others.iter().all(|other| other.name != case.name) {
            others.push(case);
        }
    }
    others.retain(|other| cases.iter().all(|case| case.name != other.name));
    others.extend(cases);
    // Without them a budget would look like a whole exploration.
    let not_tried = report.not_tried.iter().map(|name| {
        let kind = name.split(['@', '+']).next().unwrap_or_default();
        let known = PerturbationKind::parse(kind);
        TestCase {
            kind: known.map_or("pairs", PerturbationKind::name),
            name: name.clone(),
            change: String::new(),
            time: Duration::ZERO,
            result: CaseResult::Skipped("the budget ended before"),
        }
    });
    others.extend(not_tried);
    others
}

fn case_of(point: &PointReport, told: &[ToldFinding<'_>]) -> TestCase {
    let name = point.name();
    let own = told.iter().filter(|one| one.name == name);
    let own: String = own
        .map(|one| failure(one.finding.problem.kind(), &one.sentence, &one.story))
        .collect();
    let result = match point.outcome {
        PointOutcome::Found => {
            let same = told.iter().filter(|one| one.finding.also.contains(&name));
            let same = same.map(|one| {
                let text = format!("the same problem as with {}", one.name);
                failure(one.finding.problem.kind(), &one.sentence, &text)
            });
            let mut failures: String = [own].into_iter().chain(same).collect();
            if failures.is_empty() {
                let text = "an expectation is violated";
                failures = failure("finding", text, text);
            }
            CaseResult::Failed(failures)
        }
        // Another outcome contradicts a finding with the same name, which counts.
        _ if !own.is_empty() => CaseResult::Failed(own),
        PointOutcome::Passed => CaseResult::Passed,
        PointOutcome::NotReached => CaseResult::Skipped("the operator did not reach the point"),
        PointOutcome::Refused => CaseResult::Skipped("the server refused the desired state"),
    };
    TestCase {
        kind: kind_name(point),
        name,
        change: point.change.clone(),
        time: point.time,
        result,
    }
}

fn failure(kind: &str, message: &str, text: &str) -> String {
    let message = escaped_attribute(message);
    format!(
        "      <failure type=\"{kind}\" message=\"{message}\">{}</failure>\n",
        escaped(text)
    )
}
