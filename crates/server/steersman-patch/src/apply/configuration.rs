//! Machine: parses the body of an apply request: YAML, of which JSON is a subset.

use serde_json::{Map, Value};
use steersman_apimachinery::yaml;

use crate::json_patch::not_of_type;

/// Parses an applied configuration. The second value holds the warnings for the author of the request.
///
/// # Errors
/// Fails with the message of a real kube-apiserver.
pub fn parse(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let undecodable = |why: String| format!("error decoding YAML: {why}");
    let (value, warnings) = yaml::parse_and_warn(body)
        .map_err(|why| undecodable(format!("error converting YAML to JSON: {why}")))?;
    match value {
        Value::Object(_) => Ok((value, warnings)),
        Value::Null => Ok((Value::Object(Map::new()), warnings)),
        other => {
            let why = not_of_type(&other, "map[string]interface {}");
            Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: {why}"
            )))
        }
    }
}
