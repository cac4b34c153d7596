//! Evaluates expressions and alerts with promtool, on recorded series.
//!
//! `STEERSMAN_PROMTOOL` names the program; without it the tests report that they are skipped. `.ci/run test` unpacks it
//! from Debian's package.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};

use super::exposition::Series;
use super::recording::Recording;

/// The length of the evaluated time in minutes, which is longer than any alert waits.
pub(crate) const MINUTES: u32 = 120;

/// The labels of the first replica.
pub(crate) const FIRST: &str = "sites-0";

/// Series with their values, in the notation of promtool.
pub(crate) type Inputs = BTreeMap<Series, String>;

/// One evaluation of the rules on series.
pub(crate) struct Evaluation {
    pub(crate) name: String,
    pub(crate) inputs: Inputs,
    /// Expressions, each with the expected samples after two hours.
    pub(crate) expected: Vec<(String, Value)>,
}

/// Returns the series of a replica: gauges as they were at last, and what has grown during the run grows on at a rate of
/// as much in an hour.
pub(crate) fn inputs(recording: &Recording, pod: &str) -> Inputs {
    let mut inputs = Inputs::new();
    for (series, after) in &recording.after.series {
        let mut labelled = series.clone();
        for (label, value) in [
            ("job", "sites-metrics"),
            ("namespace", "sites-system"),
            ("pod", pod),
        ] {
            labelled.labels.insert(label.to_owned(), value.to_owned());
        }
        let is_growing = recording.after.growing.contains(&series.metric);
        let before = match recording.before.series.get(series) {
            Some(before) if is_growing => *before,
            None if is_growing => 0.0,
            _ => *after,
        };
        inputs.insert(labelled, slope(before, (after - before) / 60.0));
    }
    inputs
}

/// Returns values that begin with the first and grow by the second each minute.
pub(crate) fn slope(from: f64, by: f64) -> String {
    format!("{from}+{by}x{MINUTES}")
}

/// Runs the evaluations. Returns the complaints of promtool; `None` if the test is skipped.
pub(crate) fn evaluate(rules: &Value, evaluations: &[Evaluation]) -> Option<String> {
    let Some(promtool) = std::env::var_os("STEERSMAN_PROMTOOL").filter(|path| !path.is_empty())
    else {
        let line = "skipped: STEERSMAN_PROMTOOL names no promtool; `.ci/run test` unpacks one\n";
        // Unlike a macro for printing, this reaches the terminal although the test passes.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), rules.to_string()).unwrap();
    let tests: Vec<Value> = evaluations.iter().map(|one| test(rules, one)).collect();
    let file = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests});
    std::fs::write(folder.path().join("tests.yaml"), file.to_string()).unwrap();
    let mut command = Command::new(promtool);
    let output = command
        .args(["test", "rules", "tests.yaml"])
        .current_dir(folder.path());
    let output = output.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    match output.status.success() {
        true => Some(String::new()),
        false => Some(String::from_utf8_lossy(&text).into_owned()),
    }
}

fn test(rules: &Value, evaluation: &Evaluation) -> Value {
    // Only the series that something names, because promtool reads all of them for each evaluation.
    let expressions = evaluation
        .expected
        .iter()
        .map(|(expression, _)| expression.as_str());
    let names = rules.to_string() + &expressions.collect::<String>();
    let series = evaluation.inputs.iter();
    let series = series.filter(|(series, _)| names.contains(&series.metric));
    let series = series.map(|(series, values)| json!({"series": text(series), "values": values}));
    let expected = evaluation.expected.iter().map(|(expression, samples)| {
        json!({"expr": expression, "eval_time": format!("{MINUTES}m"), "exp_samples": samples})
    });
    json!({
        "name": evaluation.name,
        "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "promql_expr_test": expected.collect::<Vec<_>>(),
    })
}

fn text(series: &Series) -> String {
    let mut text = series.metric.clone() + "{";
    for (label, value) in &series.labels {
        write!(text, "{label}={value:?},").unwrap();
    }
    text + "}"
}
