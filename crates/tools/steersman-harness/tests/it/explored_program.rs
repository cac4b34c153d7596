//! An operator has the same findings as a process of the program `steersman-apiserver explore` and in a test.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_harness::{ExploreReport, HarnessError, OperatorTest, PerturbationKind, Scenario};
use steersman_object::ObjectKey;
use tokio::process::Command;

#[path = "../../examples/planted_operator/reconciler.rs"]
mod reconciler;

const KINDS: [&str; 5] = [
    "crash-before-write", "crash-after-write", "lost-answer", "refuse", "settled-restart",
];

const SCENARIO: &str = "
steps:
- apply: text.yaml
- quiet: {}
- delete: {apiVersion: v1, kind: ConfigMap, namespace: default, name: text}
quiet: 400ms
patience: 4s
perturbations: [crash-before-write, crash-after-write, lost-answer, refuse, settled-restart]
";

/// Returns the program with this path below the folder of compiled programs; `None` if it is not compiled, as when the
/// tests of this package alone are.
fn program(path: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|folder| folder.parent()).unwrap();
    let program = folder.join(path);
    program.exists().then_some(program)
}

/// Returns the name and the kind of the problem of each point that is found.
fn found(report: &ExploreReport) -> BTreeSet<String> {
    let all = report.findings.iter().flat_map(|finding| {
        let kind = finding.problem.kind();
        let names = finding.also.iter().cloned().chain([finding.name()]);
        names.map(move |name| format!("{name} {kind}"))
    });
    all.collect()
}

/// Returns the same of a report in JUnit XML.
fn found_in(junit: &str) -> BTreeSet<String> {
    let attribute = |text: &str, name: &str| {
        let (_, value) = text.split_once(&format!("{name}=\"")).unwrap();
        value.split('"').next().unwrap().to_owned()
    };
    let cases = junit.split("<testcase ").skip(1);
    let failed = cases.filter_map(|case| {
        let (_, failure) = case.split_once("<failure ")?;
        Some(format!(
            "{} {}",
            attribute(case, " name"),
            attribute(failure, "type")
        ))
    });
    failed.collect()
}

async fn found_in_process() -> BTreeSet<String> {
    let text = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text", "namespace": "default"},
        "data": {"text": "roses"},
    });
    let scenario = Scenario::new("planted operator")
        .apply(text)
        .quiet()
        .delete::<ConfigMap>(&ObjectKey::namespaced("default", "text"))
        .perturbations(PerturbationKind::all().filter(|kind| KINDS.contains(&kind.name())));
    match OperatorTest::declared(reconciler::declare)
        .explore(scenario)
        .await
    {
        Err(HarnessError::Explored(failure)) => found(&failure.report),
        other => panic!("the planted bug is not found: {other:?}"),
    }
}

#[tokio::test]
async fn an_operator_has_the_same_findings_as_a_process_and_in_a_test() {
    let names = ["steersman-apiserver", "examples/planted_operator"];
    let [Some(explorer), Some(operator)] = names.map(program) else {
        // Bypasses the capture of the test harness: a skipped test must not look like one that ran.
        let line = "skipped: the programs of the workspace are not compiled\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    };
    let expected = found_in_process().await;
    let folder = tempfile::tempdir().unwrap();
    let text = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text", "namespace": "default"},
        "data": {"text": "roses"},
    });
    std::fs::write(folder.path().join("text.yaml"), text.to_string()).unwrap();
    let scenario = folder.path().join("scenario.yaml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let report = folder.path().join("report");
    let output = Command::new(explorer)
        .args(["explore", "--jobs", "4", "--scenario"])
        .arg(&scenario)
        .arg("--report")
        .arg(&report)
        .arg("--")
        .arg(operator)
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let junit = std::fs::read_to_string(report.join("junit.xml")).unwrap();
    assert_eq!(found_in(&junit), expected, "{printed}");
}
