//! Machine: reads a log of JSON lines as strictly as any reader of logs does.

use serde_json::{Map, Value};
use steersman_apimachinery::json::duplicates;

/// Reads a log with one flat JSON object per line.
///
/// # Errors
/// The first line that is no JSON object, has a key twice, or has a nested object or a list, with the problem.
pub fn json_lines(log: &str) -> Result<Vec<Map<String, Value>>, String> {
    let read = |line: &str| flat_object(line).map_err(|problem| format!("{problem}: {line}"));
    log.lines().map(read).collect()
}

fn flat_object(line: &str) -> Result<Map<String, Value>, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else {
        return Err("no JSON object".to_owned());
    };
    let is_nested = |(_, value): &(_, &Value)| value.is_object() || value.is_array();
    if let Some((key, _)) = object.iter().find(is_nested) {
        return Err(format!("{key:?} is not flat"));
    }
    match duplicates::find(line.as_bytes()).first() {
        Some(key) => Err(format!("{key:?} is there twice")),
        None => Ok(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_flat_object_with_distinct_keys() {
        let read = json_lines("{\"a\":1}\n{\"b\":\"c\\n\"}\n").unwrap();
        assert_eq!(
            (&read[0]["a"], &read[1]["b"]),
            (&Value::from(1), &Value::from("c\n"))
        );
        for (log, problem) in [
            ("{\"a\":1}\nthread panicked", "expected"),
            ("[1]", "no JSON object"),
            ("{\"a\":1} {\"a\":1}", "trailing"),
            ("{\"a\":{}}", "\"a\" is not flat"),
            ("{\"a\":1,\"b\":2,\"a\":1}", "\"a\" is there twice"),
            ("{\"a\":1}\n\n", "EOF"),
        ] {
            let error = json_lines(log).unwrap_err();
            assert!(error.contains(problem), "{log}: {error}");
        }
    }
}
