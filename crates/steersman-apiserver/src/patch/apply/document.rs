//! Machine: reads a configuration, which is YAML and so may be JSON.

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::yaml;

/// Reads a configuration. Also answers what its author is warned of.
///
/// # Errors
/// What is wrong with it, in the words of the real server.
pub(crate) fn parse(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let undecodable = |why: String| format!("error decoding YAML: {why}");
    let (value, warnings) = match read(body, DuplicateKeyPolicy::Error) {
        Ok(value) => (value, Vec::new()),
        Err(first) => {
            let value = read(body, DuplicateKeyPolicy::LastWins).map_err(|why| {
                undecodable(format!("error converting YAML to JSON: yaml: {why}"))
            })?;
            (value, duplicate(&first).into_iter().collect())
        }
    };
    match value {
        Value::Object(_) => Ok((value, warnings)),
        Value::Null => Ok((Value::Object(Map::new()), warnings)),
        other => {
            let found = match crate::schema::type_name(&other) {
                "integer" => "number",
                "boolean" => "bool",
                found => found,
            };
            Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )))
        }
    }
}

fn read(body: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    let first = first_document(body);
    if first.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    yaml::read(first, duplicate_keys)
}

/// Of several documents the first is read.
fn first_document(body: &[u8]) -> &[u8] {
    let mut start = 0;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let separates = line.trim_ascii_end() == b"---";
        if separates && !body[..start].trim_ascii().is_empty() {
            return &body[..start];
        }
        start += line.len();
    }
    body
}

/// The warning for a key that is there twice, from the parser's own words for it.
fn duplicate(problem: &str) -> Option<String> {
    let (place, what) = match problem.split_once(": ") {
        Some((place, what)) if place.starts_with("line ") => (place, what),
        _ => ("line 1", problem),
    };
    let lower = what.to_ascii_lowercase();
    if !lower.contains("duplicate") {
        return None;
    }
    // The parser goes on with advice for programs.
    let what = what.split(", set ").next().unwrap_or_default();
    let key = what.rsplit(": ").next().unwrap_or_default();
    let key = key.trim_matches(['"', '\'', '`', ' ']);
    Some(format!("{place}: key \"{key}\" already set in map"))
}
