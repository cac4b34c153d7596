//! One object of each kind with every field set: what defaults and the preparation of a create change in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use steersman_schema::builtin::built_in;
use steersman_schema::types;

use crate::of;

/// The changes of each kind, a line each. `STEERSMAN_UPDATE=1` writes them again.
const RECORDED: &str = include_str!("full_objects.txt");
const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/full_objects.txt");

/// Makes objects with every field from the schemas of their types.
struct Maker {
    schemas: Map<String, Value>,
}

impl Maker {
    fn object(api_version: &str, kind: &str) -> Value {
        let mut schemas = Map::new();
        let root = types::describe(api_version, kind, &mut schemas).unwrap();
        let maker = Self { schemas };
        let mut object = maker.value(&json!({ "$ref": root }), &[]).unwrap();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        // Metadata is the registry's.
        object["metadata"] = json!({"name": "a"});
        object
    }

    /// Returns a value of a schema below the types `above`; `None` for a type that contains itself.
    fn value(&self, schema: &Value, above: &[&str]) -> Option<Value> {
        let reference = schema["$ref"]
            .as_str()
            .or(schema["allOf"][0]["$ref"].as_str());
        if let Some(reference) = reference {
            let (_, name) = reference.rsplit_once('/').unwrap_or(("", reference));
            let inner = [above, &[name]].concat();
            return (!above.contains(&name))
                .then(|| self.value(&self.schemas[name], &inner))
                .flatten();
        }
        if let Some(properties) = schema["properties"].as_object() {
            let fields = properties
                .iter()
                .filter_map(|(name, schema)| Some((name.clone(), self.value(schema, above)?)));
            return Some(Value::Object(fields.collect()));
        }
        Some(match schema["type"].as_str() {
            Some("array") => json!([self.value(&schema["items"], above)?]),
            Some("object") if schema["additionalProperties"].is_object() => {
                json!({"key": self.value(&schema["additionalProperties"], above)?})
            }
            Some("integer") => json!(7),
            Some("number") => json!(7.5),
            Some("boolean") => json!(true),
            Some("string") => match schema["format"].as_str() {
                Some("date-time") => json!("2026-01-01T00:00:00.000000Z"),
                Some("byte") => json!("YQ=="),
                _ => json!("7"),
            },
            // Quantities, and ports by number or name.
            _ if schema["oneOf"].is_array() => json!("7"),
            _ => json!({}),
        })
    }
}

/// Adds each value without members to a table, by its path.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                flatten(&format!("{path}.{name}"), value, into);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, value) in list.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, into);
            }
        }
        _ => {
            // A time without microseconds is the same one.
            let text = value.to_string().replace(".000000Z", "Z");
            into.insert(path.to_owned(), text);
        }
    }
}

/// Returns a line for each value that was removed, added or changed.
fn changes(before: &Value, after: &Value) -> Vec<String> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten("", before, &mut old);
    flatten("", after, &mut new);
    let mut lines = Vec::new();
    for (path, value) in &old {
        match new.get(path) {
            None => lines.push(format!("  - {path}")),
            Some(now) if now != value => lines.push(format!("  {path} = {now}")),
            Some(_) => {}
        }
    }
    let added = new.iter().filter(|(path, _)| !old.contains_key(*path));
    lines.extend(added.map(|(path, value)| format!("  + {path} = {value}")));
    lines
}

/// SRV-KIND-3: no field of any kind is lost but for those that are recorded with the kind.
#[test]
fn a_create_keeps_every_field_of_each_kind() {
    let mut text = String::new();
    for resource in built_in() {
        let Some(kind) = of(&resource) else {
            continue;
        };
        let (api_version, name) = (resource.api_version(), &resource.kind);
        let sent = Maker::object(&api_version, name);
        let mut object = sent.clone();
        let unknown = types::decode(&api_version, name, &mut object).unwrap();
        assert!(unknown.is_empty(), "{api_version} {name}: {unknown:?}");
        (kind.defaults)(&mut object);
        let mut again = object.clone();
        (kind.defaults)(&mut again);
        assert_eq!(changes(&object, &again), [""; 0], "{api_version} {name}");
        (kind.prepare)(&mut object, None);
        let _ = writeln!(text, "{api_version} {name}");
        for line in changes(&sent, &object) {
            let _ = writeln!(text, "{line}");
        }
    }
    if std::env::var_os("STEERSMAN_UPDATE").is_some() {
        std::fs::write(PLACE, &text).unwrap();
        return;
    }
    assert_eq!(text, RECORDED, "STEERSMAN_UPDATE=1 records the changes");
}
