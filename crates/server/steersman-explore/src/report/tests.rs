//! Tests of reports.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::finding::{Finding, StateDifference};
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::story::tell;
use crate::story::tests::{
    SECRET_BASE64, SECRET_VALUE, id, lost_answer, secret_finding, with_problem, wrong_state,
};

/// Markup, the end of a CDATA section, and a control character.
const HOSTILE: &str = "</pre><script>alert('1')</script>]]>&\"\u{1}\u{1b}[31m";

fn point(name: &str, outcome: PointOutcome) -> PointReport {
    PointReport {
        perturbations: Perturbation::parse_all(name).unwrap(),
        change: String::new(),
        outcome,
        time: Duration::from_millis(310),
        log: 0,
    }
}

fn report(findings: Vec<Finding>) -> ExploreReport {
    ExploreReport {
        scenario: "test/site.yaml".to_owned(),
        operator: "./operator --verbose".to_owned(),
        worlds: 12,
        writes: 4,
        desired_states: DesiredReport::default(),
        unrepeatable: Vec::new(),
        time: Duration::from_millis(4250),
        points: vec![
            point("crash-after-write@1", PointOutcome::Passed),
            point("crash-after-write@2", PointOutcome::Found),
            point("lost-answer@2", PointOutcome::Found),
            point("refuse@3:500", PointOutcome::NotReached),
            point("lost-answer@2+missed@1", PointOutcome::Passed),
        ],
        not_tried: vec!["missed@2".to_owned(), "missed@3".to_owned()],
        varying: vec!["Secret shop/db data.password".to_owned()],
        findings,
        again: "explore --only {name} -- ./operator".to_owned(),
    }
}

fn hostile() -> Finding {
    let mut finding = with_problem(wrong_state(vec![StateDifference {
        object: id("ConfigMap", HOSTILE),
        expected: Some(json!({"data": {HOSTILE: HOSTILE}})),
        found: Some(json!({"data": {"a": HOSTILE}})),
    }]));
    finding.also.push(HOSTILE.to_owned());
    finding
}

#[test]
fn an_operator_that_wrote_nothing_is_a_warning() {
    let idle = ExploreReport {
        worlds: 3,
        ..ExploreReport::default()
    };
    assert!(idle.summary().contains("the operator wrote nothing"));
    let interrupted = ExploreReport { worlds: 2, ..idle };
    assert!(!interrupted.summary().contains("the operator wrote nothing"));
}

#[test]
fn what_other_desired_states_showed_is_summed_up() {
    let mut report = ExploreReport {
        worlds: 9,
        writes: 1,
        unrepeatable: vec!["create secrets a".to_owned()],
        ..ExploreReport::default()
    };
    report.desired_states = DesiredReport {
        without_effect: vec!["Site spec.note".to_owned()],
        unreachable: vec!["Site a spec.size: -1 instead of 0".to_owned()],
        untried: vec!["Page b: the operator ended by itself: exit code 1".to_owned()],
        skipped: vec!["Site a without spec".to_owned()],
        unmatched: vec!["Site spec.sise".to_owned()],
        left_out: 7,
    };
    let summary = report.summary();
    for line in [
        "1 request differs between two worlds with one seed",
        "1 field has no effect: Site spec.note",
        "only the way back was tried: Site a spec.size: -1 instead of 0",
        "no other desired state was tried of Page b: the operator ended by itself",
        "a skipped field would change, too: Site a without spec",
        "1 chosen field is in no schema: Site spec.sise",
        "7 desired states were left out",
    ] {
        assert!(summary.contains(line), "{line}\n{summary}");
    }
}

#[test]
fn a_summary_has_the_numbers_and_each_finding() {
    assert_eq!(report(vec![lost_answer()]).summary(), "\
test/site.yaml: 1 finding in 12 worlds within 4.2 s
  5 of 7 planned points tried
  1 point was not reached by the operator
  2 points were not tried, because the budget ended: missed@2, missed@3
  1 part varies from run to run, where values are not compared: Secret shop/db data.password

lost-answer@2
  the final state differs from the undisturbed run: ConfigMap shop/pages differs; Service shop/pages is missing
  repeat it with: explore --only lost-answer@2 -- ./operator
");
}

#[test]
fn an_empty_report_is_printed() {
    let report = ExploreReport::default();
    assert_eq!(
        report.summary(),
        ": nothing was explored\n  0 of 0 planned points tried\n"
    );
    assert!(report.junit().contains(
        "<testsuite name=\"\" tests=\"0\" failures=\"0\" errors=\"0\" skipped=\"0\" time=\"0.000\">"
    ));
    assert!(
        report
            .html()
            .contains("<p class=\"verdict clean\">nothing was explored</p>")
    );
    assert!(!report.html().contains("<table>"));
}

#[test]
fn junit_has_a_case_for_each_point_and_for_the_undisturbed_run() {
    let xml = report(vec![lost_answer()]).junit();
    let counts = "tests=\"8\" failures=\"2\" errors=\"0\" skipped=\"3\" time=\"4.250\"";
    assert!(
        xml.contains(&format!("<testsuite name=\"test/site.yaml\" {counts}>\n")),
        "{xml}"
    );
    for line in [
        "    <testcase classname=\"reference\" name=\"reference\" time=\"0.000\"/>\n",
        "    <testcase classname=\"crash-after-write\" name=\"crash-after-write@1\" time=\"0.310\"/>\n",
        "    <testcase classname=\"pairs\" name=\"lost-answer@2+missed@1\" time=\"0.310\"/>\n",
        "      <failure type=\"wrong-state\" message=\"the final state differs from the undisturbed run: ",
        "\">lost-answer@2: the final state differs",
        "\">the same problem as with lost-answer@2</failure>\n",
        "      <skipped message=\"the operator did not reach the point\"/>\n",
        "      <property name=\"operator\" value=\"./operator --verbose\"/>\n",
    ] {
        assert!(xml.contains(line), "{line}: {xml}");
    }
}

#[test]
fn findings_without_a_point_have_a_case() {
    let mut reference = lost_answer();
    reference.perturbations.clear();
    let mut reduced = lost_answer();
    reduced.perturbations = vec![Perturbation::at(PerturbationKind::Missed, 9)];
    let xml = report(vec![reference.clone(), reference, reduced]).junit();
    assert!(xml.contains("tests=\"9\" failures=\"4\""), "{xml}");
    assert_eq!(xml.matches(" name=\"reference\"").count(), 1);
    assert_eq!(
        xml.matches(">reference: the final state differs").count(),
        2
    );
    assert_eq!(xml.matches("name=\"missed@9\"").count(), 1);
}

#[test]
fn objects_cannot_add_markup_or_forbidden_characters() {
    let mut report = report(vec![hostile()]);
    report.scenario = HOSTILE.to_owned();
    report.operator = HOSTILE.to_owned();
    report.again = format!("{{name}} {HOSTILE}");
    report.not_tried.push(HOSTILE.to_owned());
    report.varying.push(HOSTILE.to_owned());
    for text in [report.junit(), report.html()] {
        assert!(
            !text.contains("<script>alert")
                && !text.contains("]]>")
                && !text.contains("</pre><script"),
            "{text}"
        );
        assert!(
            text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;]]&gt;&amp;&quot;"),
            "{text}"
        );
    }
    for text in [
        report.junit(),
        report.html(),
        report.summary(),
        tell(&hostile(), HOSTILE),
    ] {
        assert!(
            text.chars().all(|char| char == '\n' || !char.is_control()),
            "{text}"
        );
    }
}

#[test]
fn no_output_has_a_value_of_a_secret() {
    let finding = secret_finding();
    let report = report(vec![finding.clone()]);
    for text in [
        report.junit(),
        report.html(),
        report.summary(),
        tell(&finding, "again"),
    ] {
        for value in [SECRET_VALUE, SECRET_BASE64, "b3RoZXJ", "s3cr"] {
            assert!(!text.contains(value), "{value}: {text}");
        }
    }
}

#[test]
fn a_page_loads_nothing_and_links_each_finding_and_event() {
    let html = report(vec![lost_answer(), hostile()]).html();
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">";
    assert!(html.contains(policy));
    for outside in ["src=", "url(", "@import", "http://", "https://", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
    let targets: Vec<&str> = html
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(targets.len() > 20, "{targets:?}");
    for target in targets {
        assert_eq!(
            html.matches(&format!(" id=\"{target}\"")).count(),
            1,
            "{target}"
        );
    }
    for part in [
        "<tr><th scope=\"row\">refuse</th><td>1</td><td class=\"none\">0</td><td>1</td></tr>",
        "<span class=\"removed\">-   pages: &quot;2&quot;</span>\n<span class=\"added\">+   pages: &quot;1&quot;</span>",
        "<summary>Points that were not tried, because the budget ended (2)</summary>",
        "class=\"perturbed\"><span class=\"time\">1.204 s</span>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn a_report_without_findings_is_clean() {
    let mut report = report(Vec::new());
    report
        .points
        .retain(|point| point.outcome != PointOutcome::Found);
    let html = report.html();
    assert!(
        html.contains("<p class=\"verdict clean\">nothing found in 12 worlds within 4.2 s</p>"),
        "{html}"
    );
    assert!(!html.contains("<nav") && !html.contains("<article"));
    assert!(
        report
            .junit()
            .contains("tests=\"6\" failures=\"0\" errors=\"0\" skipped=\"3\"")
    );
}
