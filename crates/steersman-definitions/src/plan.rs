//! Machine: decides whether a definition is written, left as it is, or refused.

use serde_json::{Map, Value};

use crate::narrowing::compare_definitions;
use crate::schema_narrowing::Narrowing;

/// What to do about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The server has none.
    Create,
    /// The definition on the server differs, and the new one accepts all that it accepts.
    Update,
    /// The definition on the server is the wanted one.
    Unchanged,
    /// The definition on the server accepts all that the wanted one accepts, and more: that of a later release. Each
    /// text is a field with a difference.
    Keep(Vec<String>),
    /// Neither accepts all that the other accepts. Each text is a field that would accept less.
    Refuse(Vec<String>),
}

/// Decides about a definition. `accepted` has the fields that may accept less.
pub(crate) fn plan(present: Option<&Value>, wanted: &Value, accepted: &[String]) -> Plan {
    let Some(present) = present else {
        return Plan::Create;
    };
    let comparison = compare_definitions(present, wanted);
    let lost: Vec<String> = comparison
        .lost
        .iter()
        .filter(|narrowing| !is_accepted(narrowing, accepted))
        .map(|narrowing| format!("{}: {}", narrowing.path, narrowing.problem))
        .collect();
    match (lost.is_empty(), comparison.gained.is_empty()) {
        (true, _) if is_installed(present, wanted) => Plan::Unchanged,
        (true, _) => Plan::Update,
        // DEF-2
        (false, true) => Plan::Keep(lost),
        (false, false) => Plan::Refuse(lost),
    }
}

/// Returns whether a path that the operator accepts is that of the narrowing, or above it.
fn is_accepted(narrowing: &Narrowing, accepted: &[String]) -> bool {
    let below = |path: &String| {
        let rest = narrowing.path.strip_prefix(path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    accepted.iter().any(below)
}

/// Returns whether the definition on the server is the wanted one. The versions have to be equal, because a removed
/// rule is a change; elsewhere the server may have added defaults and other writers may have added labels.
fn is_installed(present: &Value, wanted: &Value) -> bool {
    let versions = |definition: &Value| normalized(&definition["spec"]["versions"]);
    versions(present) == versions(wanted) && has_all(present, wanted)
}

/// Returns whether `present` has every member of `wanted`.
fn has_all(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (_, Value::Null | Value::Bool(false)) if present.is_null() => true,
        (Value::Object(present), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| has_all(present.get(name).unwrap_or(&Value::Null), wanted)),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present
                    .iter()
                    .zip(wanted)
                    .all(|(one, other)| has_all(one, other))
        }
        (present, Value::Array(wanted)) => present.is_null() && wanted.is_empty(),
        (present, wanted) => normalized(present) == normalized(wanted),
    }
}

/// Returns a value in one notation: without members that are null, false or an empty list, and with numbers as floats.
fn normalized(value: &Value) -> Value {
    let is_absent = |value: &Value| {
        value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty)
    };
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), normalized(value)));
            let members: Map<_, _> = members.filter(|(_, value)| !is_absent(value)).collect();
            Value::Object(members)
        }
        Value::Array(items) => Value::Array(items.iter().map(normalized).collect()),
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "sites", "kind": "Site"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        })
    }

    fn record(fields: &Value) -> Value {
        json!({"type": "object", "properties": fields})
    }

    #[test]
    fn what_the_server_adds_is_no_difference() {
        let wanted = definition(&record(&json!({"a": {"type": "integer", "minimum": 1}})));
        let mut present = wanted.clone();
        present["metadata"]["labels"] = json!({"by": "hand"});
        present["metadata"]["resourceVersion"] = json!("7");
        present["spec"]["conversion"] = json!({"strategy": "None"});
        present["spec"]["names"]["listKind"] = json!("SiteList");
        present["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["minimum"] =
            json!(1.0);
        present["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        assert_eq!(plan(Some(&present), &wanted, &[]), Plan::Unchanged);
        present["metadata"]["labels"] = Value::Null;
        let mut labelled = wanted.clone();
        labelled["metadata"]["labels"] = json!({"app": "sites"});
        assert_eq!(plan(Some(&present), &labelled, &[]), Plan::Update);
        assert_eq!(plan(None, &wanted, &[]), Plan::Create);
    }

    #[test]
    fn a_removed_rule_is_an_update() {
        let present = definition(&record(&json!({"a": {"type": "string", "maxLength": 3}})));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert_eq!(plan(Some(&present), &wanted, &[]), Plan::Update);
    }

    /// DEF-1
    #[test]
    fn a_definition_that_accepts_less_and_more_is_refused_with_each_field() {
        let present = definition(&record(&json!({
            "a": {"type": "string"}, "b": {"type": "string"},
        })));
        let wanted = definition(&record(&json!({
            "a": {"type": "string", "maxLength": 3}, "c": {"type": "string"},
        })));
        let Plan::Refuse(problems) = plan(Some(&present), &wanted, &[]) else {
            panic!("not refused");
        };
        assert!(problems[0].starts_with("v1.a: ") && problems[1].starts_with("v1.b: "));
        let accepted = ["v1.a".to_owned(), "v1.b".to_owned()];
        assert_eq!(plan(Some(&present), &wanted, &accepted), Plan::Update);
        let other = ["v1.a".to_owned(), "v1.bb".to_owned()];
        assert!(
            matches!(plan(Some(&present), &wanted, &other), Plan::Refuse(left) if left.len() == 1)
        );
        assert_eq!(
            plan(Some(&present), &wanted, &["v1".to_owned()]),
            Plan::Update
        );
    }

    /// DEF-2
    #[test]
    fn the_definition_of_a_later_release_is_kept() {
        let present = definition(&record(
            &json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        ));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert!(matches!(plan(Some(&present), &wanted, &[]), Plan::Keep(lost) if lost.len() == 1));
    }
}
