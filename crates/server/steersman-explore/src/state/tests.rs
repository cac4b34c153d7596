//! Tests of the comparison of states: each rule as a table, and all rules together on states with random names.

mod parts;
mod learned;
mod names;
mod references;
mod random;

use serde_json::{Value, json};

use super::Expected;
use crate::field_pattern::FieldPattern;
use crate::object_id::{ObjectId, ObjectMap};
use crate::scenario::{IgnoredPart, ScenarioRules};

/// Returns the objects of a list.
fn map(objects: &Value) -> ObjectMap {
    ObjectId::map(objects.as_array().unwrap().iter().cloned())
}

fn expected(runs: &[Value]) -> Expected {
    let runs: Vec<ObjectMap> = runs.iter().map(map).collect();
    Expected::learn(&runs, &ScenarioRules::default())
}

/// Returns a line for each difference of a world, with the values of the members that differ.
fn lines(expected: &Expected, world: &Value) -> Vec<String> {
    let differences = expected.differences(&map(world)).into_iter();
    let line = |(object, expected, found): (ObjectId, Option<Value>, Option<Value>)| match (
        expected, found,
    ) {
        (Some(expected), Some(found)) => {
            let mut parts = Vec::new();
            differing("", &expected, &found, &mut parts);
            format!("{object}: {}", parts.join(", "))
        }
        (Some(_), None) => format!("{object} is missing"),
        (None, Some(_)) => format!("{object} is additional"),
        (None, None) => format!("{object} is neither expected nor found"),
    };
    differences
        .map(|difference| line((difference.object, difference.expected, difference.found)))
        .collect()
}

fn differing(path: &str, expected: &Value, found: &Value, parts: &mut Vec<String>) {
    if let (Value::Object(expected), Value::Object(found)) = (expected, found) {
        let names: std::collections::BTreeSet<&String> =
            expected.keys().chain(found.keys()).collect();
        for name in names {
            let member = |members: &serde_json::Map<String, Value>| {
                members.get(name).cloned().unwrap_or_else(|| json!("-"))
            };
            differing(
                &format!("{path}/{name}"),
                &member(expected),
                &member(found),
                parts,
            );
        }
    } else if expected != found {
        parts.push(format!("{path} {expected} {found}"));
    }
}

/// Returns the differences of a world from runs that end in the same state.
fn compared(run: &Value, world: &Value) -> Vec<String> {
    lines(&expected(&[run.clone(), run.clone()]), world)
}

/// Returns an object of the namespace `shop`, with members of its metadata and of itself.
fn object(kind: &str, name: &str, metadata: Value, members: Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": name}});
    let Value::Object(metadata) = metadata else {
        panic!("{metadata}");
    };
    object["metadata"].as_object_mut().unwrap().extend(metadata);
    let Value::Object(members) = members else {
        panic!("{members}");
    };
    object.as_object_mut().unwrap().extend(members);
    object
}

/// Returns a list with the Site `a`.
fn site(metadata: Value, members: Value) -> Value {
    json!([object("Site", "a", metadata, members)])
}

/// Returns a Pod with a generated name and a label.
fn pod(suffix: &str, label: &str) -> Value {
    object(
        "Pod",
        &format!("web-{suffix}"),
        json!({"generateName": "web-", "labels": {"a": label}}),
        json!({}),
    )
}

const NONE: [&str; 0] = [];
