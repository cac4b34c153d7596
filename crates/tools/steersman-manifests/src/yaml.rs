//! Machine: writes values as YAML, with keys in the usual order of Kubernetes manifests.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use serde_saphyr::FlowSeq;
use steersman_apimachinery::yaml;

#[cfg(test)]
mod tests;

/// The keys that come first, in this order. All other keys follow alphabetically.
const FIRST: &[&str] = &[
    "apiVersion", "apiGroup", "kind", "metadata", "name", "namespace", "labels", "annotations",
    "spec", "clientConfig", "roleRef", "subjects", "rules", "apiGroups", "apiVersions",
    "resources", "resourceNames", "nonResourceURLs", "operations", "verbs", "group", "names",
    "scope", "conversion", "versions", "served", "storage", "deprecated", "deprecationWarning",
    "additionalPrinterColumns", "selectableFields", "subresources", "schema", "plural", "singular",
    "listKind", "shortNames", "categories", "description", "type", "format", "nullable", "default",
    "enum", "required", "properties", "items", "additionalProperties", "rule", "message",
];

/// The keys of mappings from names, which are sorted alphabetically.
const OF_NAMES: &[&str] = &[
    "properties", "patternProperties", "labels", "matchLabels", "annotations", "data", "default",
];

/// The maximal length of a list on one line, without its brackets.
const LINE: usize = 76;

pub(crate) fn document(value: &Value) -> String {
    let node = ManifestNode {
        value,
        is_of_names: false,
    };
    // Writing cannot fail: YAML can express every JSON value, and a `String` accepts every text.
    let text = serde_saphyr::to_string(&node).unwrap_or_default();
    let trimmed = without_trailing_spaces(&text);
    // Trimming may have changed a text with spaces at the end of a line; then the original is kept.
    match serde_saphyr::from_str::<Value>(&trimmed) {
        Ok(read) if read == *value => trimmed,
        _ => text,
    }
}

/// Removes the spaces on empty lines in multi-line texts.
fn without_trailing_spaces(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_end_matches(' '));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Writes a text as a YAML scalar, in quotes unless all YAML versions read it as this text without quotes.
pub(crate) fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !text.ends_with(':')
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "-._/:@".contains(char))
        && yaml::parse(text.as_bytes()).is_ok_and(|read| read == text);
    if is_plain {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Writes a text in double quotes. A JSON string is also a YAML string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes several documents with separators.
pub(crate) fn documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let texts: Vec<String> = values.into_iter().map(document).collect();
    texts.join("---\n")
}

/// A value, and whether its keys are names.
struct ManifestNode<'a> {
    value: &'a Value,
    is_of_names: bool,
}

impl Serialize for ManifestNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Array(items) if is_line(items) => FlowSeq(items).serialize(serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    let is_of_names = false;
                    list.serialize_element(&ManifestNode { value, is_of_names })?;
                }
                list.end()
            }
            Value::Object(map) => {
                let mut written = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in sorted(map, self.is_of_names) {
                    let is_of_names = !self.is_of_names && OF_NAMES.contains(&key.as_str());
                    written.serialize_entry(key, &ManifestNode { value, is_of_names })?;
                }
                written.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Returns whether a list fits on one line: short, and only scalars without line breaks.
fn is_line(items: &[Value]) -> bool {
    let lengths = items.iter().map(|item| match item {
        Value::String(text) if !text.contains(char::is_control) => Some(text.chars().count() + 2),
        Value::Number(_) | Value::Bool(_) => Some(7),
        _ => None,
    });
    let length: Option<usize> = lengths.sum();
    !items.is_empty() && length.is_some_and(|length| length <= LINE)
}

fn sorted(map: &Map<String, Value>, is_of_names: bool) -> Vec<(&String, &Value)> {
    let first: &[&str] = if is_of_names { &[] } else { FIRST };
    let rank = |key: &str| {
        let place = first.iter().position(|one| *one == key);
        place.unwrap_or(first.len())
    };
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| (rank(key), *key));
    entries
}
