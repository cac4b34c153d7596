//! Machine: reads a log of JSON lines as strictly as any reader of logs does.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Reads a log with one flat JSON object per line.
///
/// # Errors
/// The first line that is no JSON object, has a key twice, or has a nested object or a list, with the problem.
pub fn json_lines(log: &str) -> Result<Vec<Map<String, Value>>, String> {
    let lines = log.lines().map(|line| match serde_json::from_str(line) {
        Ok(FlatObject(object)) => Ok(object),
        Err(problem) => Err(format!("{problem}: {line}")),
    });
    lines.collect()
}

struct FlatObject(Map<String, Value>);

impl<'de> Deserialize<'de> for FlatObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = FlatObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<FlatObject, A::Error> {
                let mut object = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if value.is_object() || value.is_array() {
                        return Err(A::Error::custom(format_args!("{key:?} is not flat")));
                    }
                    if object.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("{key:?} is there twice")));
                    }
                    object.insert(key, value);
                }
                Ok(FlatObject(object))
            }
        }

        deserializer.deserialize_map(Keys)
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
            ("[1]", "a JSON object"),
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
