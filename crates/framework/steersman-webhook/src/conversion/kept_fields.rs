//! Machine: keeps fields that another version cannot hold in an annotation (CONV-2).

use serde_json::{Map, Value};

/// The fields of an object that a conversion leaves as they are.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(crate) fn annotation(group: &str, version: &str) -> String {
    format!("{group}/fields-of-{version}")
}

/// Returns an object without `apiVersion`, `kind` and `metadata`.
pub(crate) fn content(object: &Value) -> Value {
    let members = object.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| !HEAD.contains(&name.as_str()));
    Value::Object(
        members
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

pub(crate) fn object(api_version: &str, kind: &Value, metadata: Value, content: Value) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), Value::from(api_version));
    object.insert("kind".to_owned(), kind.clone());
    object.insert("metadata".to_owned(), metadata);
    if let Value::Object(content) = content {
        object.extend(content);
    }
    Value::Object(object)
}

/// Removes an annotation, and returns its kept content. Content that is invalid is dropped, because no conversion has
/// written it.
pub(crate) fn take(metadata: &mut Value, annotation: &str) -> Option<Value> {
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let kept = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.as_object_mut()?.remove("annotations");
    }
    let kept: Value = serde_json::from_str(kept.as_str()?).ok()?;
    kept.is_object().then_some(kept)
}

pub(crate) fn put(metadata: &mut Value, annotation: String, content: &Value) {
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(annotation, Value::from(content.to_string()));
    }
}

/// Returns whether a type knows every field of `original`; `encoded` is the object as the type encodes it. A null field
/// counts as absent.
pub(crate) fn is_known(original: &Value, encoded: &Value) -> bool {
    match (original, encoded) {
        (Value::Null, _) => true,
        (Value::Object(original), Value::Object(encoded)) => {
            original.iter().all(|(name, value)| {
                value.is_null()
                    || encoded
                        .get(name)
                        .is_some_and(|encoded| is_known(value, encoded))
            })
        }
        (Value::Array(original), Value::Array(encoded)) => {
            original.len() == encoded.len()
                && original
                    .iter()
                    .zip(encoded)
                    .all(|(one, other)| is_known(one, other))
        }
        (Value::Object(_) | Value::Array(_), _) => false,
        // Both values may be notations of one value.
        (_, encoded) => !encoded.is_null(),
    }
}
