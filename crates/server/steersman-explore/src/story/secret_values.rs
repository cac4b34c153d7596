//! Machine: hides the values of Secrets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::finding::{Finding, Problem};
use crate::object_id::ObjectId;
use crate::scenario::Step;
use crate::world_event::WorldEventKind;

/// The values of Secrets that the world of a finding shows. They are replaced in texts that the operator or a driver
/// wrote, such as the last lines that a process printed.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    /// Each value with its replacement. A longer value, of which a shorter one may be a part, comes first.
    values: BTreeMap<(Reverse<usize>, String), String>,
}

/// The kind with values that are not printed.
const SECRET: &str = "Secret";

/// The members of a Secret with its values.
const MEMBERS: [&str; 2] = ["data", "stringData"];

/// The annotation in which `kubectl apply` keeps a copy of the whole object.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The length, in bytes, from which a value is replaced in other texts. A shorter value, such as `shop`, is also a
/// part of names.
const SHORTEST: usize = 8;

/// The length, in bytes, from which a line of a value is replaced by itself.
const SHORTEST_LINE: usize = 16;

impl SecretValues {
    /// Collects the values of the Secrets in the steps, in the events and in a changed field.
    pub(crate) fn of(finding: &Finding) -> Self {
        let mut known = Self::default();
        for step in &finding.steps {
            match step {
                Step::Apply { objects, .. } => objects.iter().for_each(|one| known.add(one, "")),
                Step::Merge { object, patch, .. } => known.add(patch, &object.kind),
                _ => {}
            }
        }
        for event in &finding.events {
            let WorldEventKind::Wrote {
                change: Some(change),
                ..
            } = &event.what
            else {
                continue;
            };
            for object in [&change.before, &change.after].into_iter().flatten() {
                known.add(object, &change.id.kind);
            }
        }
        if let Problem::ChangedConstant {
            object,
            field,
            before,
            after,
        } = &finding.problem
            && let Some(member) = secret_member(object, field)
        {
            known.add_below(member, before);
            known.add_below(member, after);
        }
        known
    }

    /// Replaces the values in a text.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for ((_, value), replacement) in &self.values {
            if hidden.contains(value.as_str()) {
                hidden = hidden.replace(value.as_str(), replacement);
            }
        }
        hidden
    }

    fn add(&mut self, value: &Value, kind: &str) {
        match value {
            Value::Object(members) => {
                let is_secret = is_secret(members, kind);
                for (name, member) in members {
                    match secret_name(name).filter(|_| is_secret) {
                        Some(name) => self.add_below(name, member),
                        None => self.add(member, ""),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item, "")),
            _ => {}
        }
    }

    fn add_below(&mut self, member: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                members
                    .values()
                    .for_each(|inner| self.add_below(member, inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.add_below(member, inner)),
            Value::String(text) => {
                let replacement = replacement(member, value);
                let plain = plain_bytes(member, text);
                let plain = String::from_utf8(plain).unwrap_or_default();
                let escaped = Value::from(plain.as_str()).to_string();
                let escaped = escaped.trim_matches('"').to_owned();
                let lines = plain
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
                let parts: Vec<String> = lines.map(str::to_owned).collect();
                let whole = [text.clone(), escaped, plain.trim().to_owned(), plain];
                let long = whole
                    .into_iter()
                    .chain(parts)
                    .filter(|one| one.len() >= SHORTEST);
                self.values
                    .extend(long.map(|one| ((Reverse(one.len()), one), replacement.clone())));
            }
            _ => {}
        }
    }
}

/// Returns an object without the values of Secrets: of the object itself, if `kind` or the object says that it is one,
/// and of Secrets inside it. Each value becomes its length and a short hash.
pub(crate) fn hide(object: &Value, kind: &str) -> Value {
    match object {
        Value::Object(members) => {
            let is_secret = is_secret(members, kind);
            let hidden = members.iter().map(|(name, member)| {
                let member = match (secret_name(name), name.as_str()) {
                    (Some(name), _) if is_secret => hide_below(name, member),
                    (_, "metadata") if is_secret => hide_applied(member),
                    _ => hide(member, ""),
                };
                (name.clone(), member)
            });
            Value::Object(hidden.collect())
        }
        Value::Array(items) => items.iter().map(|item| hide(item, "")).collect(),
        other => other.clone(),
    }
}

/// Returns the value of a field of an object without the values of Secrets.
pub(crate) fn hide_field(object: &ObjectId, field: &str, value: &Value) -> Value {
    match secret_member(object, field) {
        Some(member) => hide_below(member, value),
        None if object.kind == SECRET => hide_applied(value),
        None => hide(value, ""),
    }
}

/// Returns the member of a Secret with values that a field belongs to. A copy of the whole object counts as well.
fn secret_member(object: &ObjectId, field: &str) -> Option<&'static str> {
    if object.kind != SECRET {
        return None;
    }
    if field.contains(APPLIED) {
        return Some("stringData");
    }
    let end = field.find(['.', '[']).unwrap_or(field.len());
    secret_name(&field[..end])
}

fn secret_name(name: &str) -> Option<&'static str> {
    MEMBERS.into_iter().find(|member| *member == name)
}

fn is_secret(members: &Map<String, Value>, kind: &str) -> bool {
    kind == SECRET || members.get("kind").and_then(Value::as_str) == Some(SECRET)
}

/// Hides each value of a member.
fn hide_below(member: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Object(members) => {
            let hidden = members
                .iter()
                .map(|(name, inner)| (name.clone(), hide_below(member, inner)));
            Value::Object(hidden.collect())
        }
        Value::Array(items) => items
            .iter()
            .map(|inner| hide_below(member, inner))
            .collect(),
        one => Value::from(replacement(member, one)),
    }
}

/// Hides the copy of the object in an annotation.
fn hide_applied(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let hidden = members.iter().map(|(name, inner)| {
                let inner = match name.as_str() {
                    APPLIED => hide_below("stringData", inner),
                    _ => hide_applied(inner),
                };
                (name.clone(), inner)
            });
            Value::Object(hidden.collect())
        }
        other => hide(other, ""),
    }
}

/// Returns the length of a value and a short hash, as in `<12 bytes, 1f0ca95d>`. The same value has the same text in
/// `data` and in `stringData`.
fn replacement(member: &str, value: &Value) -> String {
    let bytes = match value {
        Value::String(text) => plain_bytes(member, text),
        other => other.to_string().into_bytes(),
    };
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let hash = hasher.finish() & 0xffff_ffff;
    format!("<{} bytes, {hash:08x}>", bytes.len())
}

/// Returns the bytes of a value: those behind the base64 in `data`.
fn plain_bytes(member: &str, text: &str) -> Vec<u8> {
    let decoded = (member == "data").then(|| STANDARD.decode(text).ok());
    decoded
        .flatten()
        .unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> ObjectId {
        ObjectId::of(&json!({"kind": "Secret", "metadata": {"namespace": "shop", "name": "a"}}))
    }

    #[test]
    fn values_become_their_length_and_a_hash() {
        let hidden = hide(
            &json!({"kind": "Secret", "type": "Opaque", "data": {"a": "aHVudGVyMjI="}}),
            "",
        );
        let same = hide(
            &json!({"stringData": {"a": "hunter22", "b": 3, "c": null}}),
            "Secret",
        );
        let text = hidden["data"]["a"].as_str().unwrap();
        assert!(
            text.starts_with("<8 bytes, ") && text.len() == "<8 bytes, 12345678>".len(),
            "{text}"
        );
        assert_eq!(hidden["data"], json!({"a": same["stringData"]["a"]}));
        assert_eq!(
            (&hidden["type"], &same["stringData"]["c"]),
            (&json!("Opaque"), &Value::Null)
        );
        assert!(
            same["stringData"]["b"]
                .as_str()
                .unwrap()
                .starts_with("<1 bytes, ")
        );
        let other = hide(&json!({"data": {"a": "aHVudGVyMjM="}}), "Secret");
        assert_ne!(hidden["data"], other["data"]);
    }

    #[test]
    fn secrets_inside_of_other_objects_and_copies_in_annotations_are_hidden() {
        let object = json!({"kind": "Work", "data": {"a": "kept"}, "items": [
            {"kind": "Secret", "data": {"a": "aHVudGVyMjI="}, "metadata": {"annotations": {APPLIED: "{hunter22}"}}},
        ]});
        let text = hide(&object, "Work").to_string();
        assert!(text.contains("kept"));
        assert!(
            !text.contains("hunter22") && !text.contains("aHVudGVyMjI="),
            "{text}"
        );
    }

    #[test]
    fn a_field_of_a_secret_is_hidden_by_its_path() {
        for (field, value) in [
            ("data.password", json!("hunter22")),
            ("data", json!({"password": "hunter22"})),
            ("stringData[\"a.b\"]", json!("hunter22")),
            ("metadata.annotations", json!({APPLIED: "hunter22"})),
            (
                "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]",
                json!("hunter22"),
            ),
        ] {
            let hidden = hide_field(&secret(), field, &value).to_string();
            assert!(!hidden.contains("hunter22"), "{field}");
        }
        assert_eq!(
            hide_field(&secret(), "type", &json!("Opaque")),
            json!("Opaque")
        );
        let mut map = secret();
        map.kind = "ConfigMap".to_owned();
        assert_eq!(hide_field(&map, "data.a", &json!("kept")), json!("kept"));
    }

    #[test]
    fn values_are_replaced_in_other_texts() {
        let mut known = SecretValues::default();
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n";
        known.add(&json!({"stringData": {"a": "hunter22", "b": "shop", "c": "say \"hunter22\"", "d": key}}), "Secret");
        known.add(&json!({"data": {"a": "aHVudGVyMjM="}}), "Secret");
        for text in [
            "a hunter22",
            "{\"a\":\"say \\\"hunter22\\\"\"}",
            "aHVudGVyMjM=",
            "(hunter23)",
            "MIIEvQIBADANBgkqhkiG9w0B",
        ] {
            let hidden = known.hide_in(text);
            assert!(hidden.contains(" bytes, "), "{hidden}");
            assert!(
                !hidden.contains("hunter") && !hidden.contains("aHVu") && !hidden.contains("MII"),
                "{hidden}"
            );
        }
        assert_eq!(known.hide_in("configmaps shop/a"), "configmaps shop/a");
    }
}
