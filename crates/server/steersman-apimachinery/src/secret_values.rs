//! Machine: hides the values of Secrets in objects that are shown.

use std::hash::{DefaultHasher, Hasher};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The kind with values that are not shown.
pub const SECRET: &str = "Secret";

/// The members of a Secret with its values.
const MEMBERS: [&str; 2] = ["data", "stringData"];

/// The annotation in which `kubectl apply` keeps a copy of the whole object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns an object without the values of Secrets: of the object itself, if `kind` or the object says that it is one,
/// and of Secrets inside it. Each value becomes its length and a short hash.
pub fn hide(object: &Value, kind: &str) -> Value {
    match object {
        Value::Object(members) => {
            let is_secret = is_secret(members, kind);
            let hidden = members.iter().map(|(name, member)| {
                let member = match (secret_member(name), name.as_str()) {
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

/// Returns the member of a Secret with values that has this name; `None` for every other member.
pub fn secret_member(name: &str) -> Option<&'static str> {
    MEMBERS.into_iter().find(|member| *member == name)
}

/// Returns whether an object is a Secret: `kind` or the object says so.
pub fn is_secret(members: &Map<String, Value>, kind: &str) -> bool {
    kind == SECRET || members.get("kind").and_then(Value::as_str) == Some(SECRET)
}

/// Hides each value of a member.
pub fn hide_below(member: &str, value: &Value) -> Value {
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
pub fn hide_applied(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let hidden = members.iter().map(|(name, inner)| {
                let inner = match name.as_str() {
                    LAST_APPLIED => hide_below("stringData", inner),
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
pub fn replacement(member: &str, value: &Value) -> String {
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
pub fn plain_bytes(member: &str, text: &str) -> Vec<u8> {
    let decoded = (member == "data").then(|| STANDARD.decode(text).ok());
    decoded
        .flatten()
        .unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            {"kind": "Secret", "data": {"a": "aHVudGVyMjI="}, "metadata": {"annotations": {LAST_APPLIED: "{hunter22}"}}},
        ]});
        let text = hide(&object, "Work").to_string();
        assert!(text.contains("kept"));
        assert!(
            !text.contains("hunter22") && !text.contains("aHVudGVyMjI="),
            "{text}"
        );
    }
}
