//! Machine: compares the definition on the server with the definition that an installation would write.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::normal_form::{has_all, normalized};
use crate::version_difference::{name, versions};

/// The difference between the definition on the server and the one that an operator would install.
///
/// Each text begins with a field, for example `v1.spec.replicas: the server lacks the field`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrdDifference {
    /// The server has no definition.
    Missing,
    /// The definitions do not differ.
    Equal,
    /// An installation would change these fields.
    Outdated(Vec<String>),
    /// The definition on the server is of a later release, and an installation would keep it. The texts are the fields
    /// in which only the server's definition accepts a value.
    Later(Vec<String>),
    /// An installation would first migrate the objects out of these versions, which it then removes.
    ToMigrate(Vec<String>),
    /// An installation would be refused, because these fields would accept less.
    Refused(Vec<String>),
}

pub(crate) fn differences(present: &Value, wanted: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let (before, after) = (versions(present), versions(wanted));
    for new in &after {
        match before.iter().find(|old| name(old) == name(new)) {
            Some(old) => of_version(old, new, name(new), &mut found),
            None => found.push(format!("{}: the server lacks the version", name(new))),
        }
    }
    for old in &before {
        if !after.iter().any(|new| name(new) == name(old)) {
            found.push(format!("{}: only the server has the version", name(old)));
        }
    }
    for part in ["metadata", "spec"] {
        let fields = wanted[part].as_object().into_iter().flatten();
        for (name, wanted) in fields.filter(|(name, _)| *name != "versions") {
            if !has_all(&present[part][name], wanted) {
                found.push(format!("{part}.{name}: the server has another value"));
            }
        }
    }
    found
}

fn of_version(old: &Value, new: &Value, name: &str, found: &mut Vec<String>) {
    let (old, new) = (normalized(old), normalized(new));
    for key in keys(&old, &new) {
        if key == "schema" {
            let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            of_schema(&schema(&old), &schema(&new), name, found);
        } else if old[&key] != new[&key] {
            found.push(format!("{name}: {key} differs"));
        }
    }
}

fn of_schema(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    for key in keys(old, new) {
        let (old, new) = (&old[&key], &new[&key]);
        if old == new {
            continue;
        }
        match key.as_str() {
            "properties" => of_fields(old, new, path, found),
            "items" => of_schema(old, new, &format!("{path}[]"), found),
            "additionalProperties" if old.is_object() && new.is_object() => {
                of_schema(old, new, &format!("{path}.*"), found);
            }
            key => found.push(format!("{path}: {key} differs")),
        }
    }
}

fn of_fields(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    for name in keys(old, new) {
        let path = format!("{path}.{name}");
        match (old.get(&name), new.get(&name)) {
            (Some(old), Some(new)) => of_schema(old, new, &path, found),
            (None, _) => found.push(format!("{path}: the server lacks the field")),
            (_, None) => found.push(format!("{path}: only the server has the field")),
        }
    }
}

/// Returns the distinct member names of two JSON objects.
fn keys(one: &Value, other: &Value) -> BTreeSet<String> {
    let members = [one, other].into_iter().filter_map(Value::as_object);
    members
        .flat_map(|members| members.keys().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(versions: &Value) -> Value {
        json!({
            "metadata": {"name": "sites.example.com", "labels": {"a": "b"}},
            "spec": {"scope": "Namespaced", "versions": versions},
        })
    }

    fn version(name: &str, fields: &Value) -> Value {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    }

    #[test]
    fn each_difference_names_its_field() {
        let mut old = version(
            "v1",
            &json!({"a": {"type": "string", "description": "An a."}}),
        );
        let list = json!({"type": "array", "items": {"type": "string"}});
        let new = version("v1", &json!({"a": {"type": "string"}, "b": list}));
        let v2 = version("v2", &json!({}));
        let wanted = definition(&json!([new, v2]));
        let mut present = definition(&json!([old]));
        present["metadata"]["labels"] = json!({"c": "d"});
        let expected = [
            "v1.spec.a: description differs",
            "v1.spec.b: the server lacks the field",
            "v2: the server lacks the version",
            "metadata.labels: the server has another value",
        ];
        let found = CrdDifference::between(Some(&present), &wanted);
        assert_eq!(
            found,
            CrdDifference::Outdated(expected.map(str::to_owned).to_vec())
        );
        assert_eq!(
            CrdDifference::between(Some(&wanted), &wanted),
            CrdDifference::Equal
        );
        assert_eq!(
            CrdDifference::between(None, &wanted),
            CrdDifference::Missing
        );
        // Each definition has a field that the other definition lacks.
        old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
            json!({"c": {"type": "string"}});
        let present = definition(&json!([old]));
        let found = CrdDifference::between(Some(&present), &wanted);
        assert!(
            matches!(&found, CrdDifference::Refused(fields) if fields[0].starts_with("v1.spec.c")),
            "{found:?}"
        );
        let found = CrdDifference::between(Some(&wanted), &definition(&json!([new])));
        assert!(matches!(found, CrdDifference::Later(_)), "{found:?}");
    }

    #[test]
    fn fields_of_items_and_maps_are_found() {
        let schema = |kind: &str| {
            json!({
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": kind}}}},
                "map": {"type": "object", "additionalProperties": {"type": kind}},
            })
        };
        let (old, new) = (
            version("v1", &schema("string")),
            version("v1", &schema("integer")),
        );
        let found = differences(&definition(&json!([old])), &definition(&json!([new])));
        assert_eq!(
            found,
            [
                "v1.spec.list[].x: type differs",
                "v1.spec.map.*: type differs"
            ]
        );
    }
}
