//! Tests the dashboard: its form, its layout and its queries.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steersman_manifests::{Manifests, Options, RuleList};

use super::names::{exposed, unknown_names};
use super::recording::program;
use crate::examples::{manifests, options, simple};

/// Reads a dashboard with the types of Grafana's foundation SDK, and prints what they do not know, as a JSON list.
const READ: &str = r#"
import json, sys
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

plugins.register_default_plugins()
given = json.load(sys.stdin)
read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(given)))

def lost(given, read, path):
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            if key in read:
                yield from lost(value, read[key], f"{path}.{key}")
            elif value is not None:
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for at, value in enumerate(given):
            yield from lost(value, read[at], f"{path}[{at}]")
    elif given != read:
        yield f"{path}: {given} is read as {read}"

print(json.dumps(list(lost(given, read, ""))))
"#;

fn parsed(manifests: &Manifests) -> Value {
    serde_json::from_str(&manifests.kustomize()["config/grafana/dashboard.json"]).unwrap()
}

/// Returns the dashboard of the recorded operator.
pub(crate) fn dashboard() -> Value {
    let description = program().describe().unwrap();
    let manifests = Manifests::new(&description, &RuleList::default(), &Options::default());
    parsed(&manifests.unwrap())
}

/// Returns all queries, with values in place of the variables.
pub(crate) fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let annotations = dashboard["annotations"]["list"].as_array().unwrap();
    assert_eq!(annotations.len(), 1);
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries.map(filled).collect()
}

fn filled(query: &str) -> String {
    let mut query = query.to_owned();
    for (variable, value) in [
        ("$job", "sites-metrics"),
        ("$namespace", "sites-system"),
        ("$pod", ".*"),
        ("$controller", ".*"),
        ("$__rate_interval", "5m"),
    ] {
        query = query.replace(variable, value);
    }
    assert!(!query.contains(['$', '%']), "{query}");
    query
}

fn both() -> [Value; 2] {
    let simple = Manifests::new(&simple(), &RuleList::default(), &Options::default());
    [parsed(&manifests(&options())), parsed(&simple.unwrap())]
}

#[test]
fn panels_have_different_numbers_and_places() {
    for dashboard in both() {
        let (mut numbers, mut cells) = (BTreeSet::new(), BTreeSet::new());
        let mut top = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = &panel["title"];
            assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{title}");
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            assert!(w > 0 && h > 0 && x + w <= 24, "{title}");
            assert!(y >= top, "{title} is above the panel before it");
            top = y;
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(cells.insert(cell), "{title} covers another panel");
            }
        }
        // No row of the grid is empty.
        let rows: BTreeSet<u64> = cells.iter().map(|(_, y)| *y).collect();
        assert_eq!(rows.len() as u64, rows.last().unwrap() + 1);
    }
}

#[test]
fn panels_have_a_description_a_unit_and_legends_that_tell_their_series_apart() {
    for panel in both()
        .iter()
        .flat_map(|one| one["panels"].as_array().unwrap())
    {
        if panel["type"] == "row" {
            continue;
        }
        let title = panel["title"].as_str().unwrap();
        let description = panel["description"].as_str().unwrap();
        assert!(
            description.len() > 60 && description.ends_with('.'),
            "{title}"
        );
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title}"
        );
        let targets = panel["targets"].as_array().unwrap();
        let letters: BTreeSet<&str> = targets
            .iter()
            .map(|target| target["refId"].as_str().unwrap())
            .collect();
        assert_eq!(letters.len(), targets.len(), "{title}");
        for target in targets {
            let (query, legend) = (target["expr"].as_str().unwrap(), &target["legendFormat"]);
            let grouped = query
                .split(" by (")
                .nth(1)
                .and_then(|rest| rest.split(')').next());
            for label in grouped
                .unwrap_or_default()
                .split(", ")
                .filter(|label| !label.is_empty())
            {
                let is_shown = legend
                    .as_str()
                    .unwrap()
                    .contains(&format!("{{{{{label}}}}}"));
                assert!(
                    is_shown || label == "le" || panel["type"] == "stat",
                    "{title}: {label}"
                );
            }
        }
    }
}

#[test]
fn an_operator_without_webhooks_has_no_row_about_them() {
    let titles = |dashboard: &Value| -> BTreeSet<String> {
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let rows = panels.filter(|panel| panel["type"] == "row");
        rows.map(|row| row["title"].as_str().unwrap().to_owned())
            .collect()
    };
    let [all, some] = both().map(|one| titles(&one));
    let missing: Vec<&String> = all.difference(&some).collect();
    assert_eq!(missing, ["Webhooks"]);
}

#[test]
fn every_query_parses_and_names_metrics_and_labels_that_exist() {
    let exposed = exposed();
    let dashboard = dashboard();
    let annotation = dashboard["annotations"]["list"][0]["expr"]
        .as_str()
        .unwrap();
    let mut problems = Vec::new();
    for query in queries(&dashboard).into_iter().chain([filled(annotation)]) {
        let unknown = unknown_names(&query, &exposed, &[]);
        problems.extend(unknown.into_iter().map(|one| format!("{query}: {one}")));
    }
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn the_variables_are_chosen_one_after_the_other_and_queries_use_no_others() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["datasource", "job", "namespace", "pod", "controller"]
    );
    for (at, variable) in variables.iter().enumerate().skip(1) {
        let query = variable["query"]["query"].as_str().unwrap();
        for name in &names[at..] {
            assert!(!query.contains(&format!("${name}")), "{query}");
        }
    }
    assert_eq!(variables[1]["current"]["value"], json!("sites-metrics"));
}

/// `STEERSMAN_PYTHON` names a Python with Grafana's foundation SDK, which `.ci/run test` makes. The SDK has the types of
/// dashboards, variables, queries, and of the options of each panel: what they do not know is lost when they read it.
#[test]
fn the_types_of_grafana_know_every_member() {
    let Some(python) = std::env::var_os("STEERSMAN_PYTHON").filter(|path| !path.is_empty()) else {
        let line = "skipped: STEERSMAN_PYTHON names no Python with Grafana's SDK; `.ci/run test` makes one\n";
        // Unlike a macro for printing, this reaches the terminal although the test passes.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    };
    for dashboard in both() {
        let mut command = Command::new(&python);
        let command = command
            .args(["-c", READ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut reader = command.spawn().unwrap();
        let mut input = reader.stdin.take().unwrap();
        input.write_all(dashboard.to_string().as_bytes()).unwrap();
        drop(input);
        let output = reader.wait_with_output().unwrap();
        let lost: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(lost, Vec::<String>::new());
    }
}
