//! Machine: reads and writes `fieldsV1`, a set of fields as JSON.

use serde_json::{Map, Value};

use super::path::{Atom, PathElement};
use super::set::{FieldSet, Node};

/// Writes a set.
pub(crate) fn write(set: &FieldSet) -> Value {
    Value::Object(members(set))
}

fn members(set: &FieldSet) -> Map<String, Value> {
    let mut written = Map::new();
    for (element, node) in set.nodes() {
        let mut below = Map::new();
        if !node.below.is_empty() {
            if node.member {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            below.extend(members(&node.below));
        }
        written.insert(name(element), Value::Object(below));
    }
    written
}

/// Whether a set as [`write`] wrote it has anything in common with another one.
pub(crate) fn touches(written: &Value, set: &FieldSet) -> bool {
    let Some(members) = written.as_object() else {
        return false;
    };
    set.nodes().any(|(element, node)| {
        members.get(&name(element)).is_some_and(|below| {
            let whole = below.as_object().is_none_or(Map::is_empty);
            let member = whole || below.get(".").is_some();
            (node.member && member) || (!whole && touches(below, &node.below))
        })
    })
}

fn name(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => ["f:", name].concat(),
        PathElement::Key(fields) => {
            let fields = fields.iter();
            let fields: Map<String, Value> = fields
                .map(|(name, value)| (name.clone(), value.0.clone()))
                .collect();
            // Values in memory have a form in JSON, and writing it cannot fail.
            let written = serde_json::to_string(&fields).unwrap_or_default();
            ["k:", &written].concat()
        }
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(at) => format!("i:{at}"),
    }
}

/// Reads a set. Steps of a form that is not known are left out, with all that is below them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(value: &Value) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    let members = match value {
        Value::Null => return Ok(set),
        Value::Object(members) => members,
        other => return Err(format!("expected an object of fields, found {other}")),
    };
    for (name, below) in members {
        let Some(element) = element(name)? else {
            continue;
        };
        let inner = read(below)?;
        let node = Node {
            member: inner.is_empty() || below.get(".").is_some(),
            below: inner,
        };
        set.put(element, node);
    }
    Ok(set)
}

/// `Ok(None)` for the place itself and for forms that are not known.
fn element(name: &str) -> Result<Option<PathElement>, String> {
    if name == "." {
        return Ok(None);
    }
    let broken = |why: String| format!("{name}: {why}");
    let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| broken(e.to_string()));
    Ok(match name.split_once(':') {
        Some(("f", field)) => Some(PathElement::field(field)),
        Some(("k", keys)) => {
            let Value::Object(fields) = json(keys)? else {
                return Err(broken("the keys are no object".to_owned()));
            };
            let fields = fields.into_iter();
            let mut fields: Vec<_> = fields.map(|(name, value)| (name, Atom(value))).collect();
            fields.sort();
            Some(PathElement::Key(fields))
        }
        Some(("v", value)) => Some(PathElement::Value(Atom(json(value)?))),
        Some(("i", at)) => Some(PathElement::Index(
            at.parse().map_err(|_| broken("no index".to_owned()))?,
        )),
        _ if name.len() < 2 => return Err(broken("too short for a step".to_owned())),
        _ => None,
    })
}
