//! Machine: finds the keys that occur twice in an object of a JSON body.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

/// Returns the paths of duplicate keys, for instance `spec.image`; none for a body that is no JSON, which the decoder
/// reports.
pub fn find(body: &[u8]) -> Vec<String> {
    let path = |message: String| {
        let path = message.strip_prefix("duplicate field \"")?;
        Some(path.strip_suffix('"')?.to_owned())
    };
    in_vain(body, &[]).into_iter().filter_map(path).collect()
}

/// Returns kube-apiserver's messages about `unknown` fields and duplicate keys of a JSON body, in the body's order.
pub fn in_vain(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let walk = Walk {
        path: String::new(),
        unknown,
        found: &mut found,
    };
    match walk.deserialize(&mut reader) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// Parses JSON without duplicate keys. Returns `None` for a body with a duplicate key, and for a body that is no JSON.
pub fn parse_distinct(body: &[u8]) -> Option<Value> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Distinct(value) = Distinct::deserialize(&mut reader).ok()?;
    reader.end().ok().map(|()| value)
}

/// A JSON value without duplicate keys.
struct Distinct(Value);

struct DistinctVisitor;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value without duplicate keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Distinct(value) = map.next_value()?;
            if members.insert(key, value).is_some() {
                return Err(A::Error::custom("a duplicate key"));
            }
        }
        Ok(Value::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

struct Walk<'a> {
    path: String,
    unknown: &'a [String],
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            let again = !seen.insert(key);
            let unknown = self.unknown.contains(&path);
            let problem = if unknown {
                Some(format!("unknown field {}", crate::go::quote(&path)))
            } else {
                again.then(|| format!("duplicate field {}", crate::go::quote(&path)))
            };
            if let Some(problem) = problem.filter(|problem| !self.found.contains(problem)) {
                self.found.push(problem);
            }
            if unknown {
                // The value of a duplicate key is skipped, with all keys in it.
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(Walk {
                path,
                unknown: self.unknown,
                found: self.found,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            if items
                .next_element_seed(Walk {
                    path,
                    unknown: self.unknown,
                    found: self.found,
                })?
                .is_none()
            {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_keys_of_one_object_are_duplicates() {
        assert_eq!(
            find(br#"{"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1}]}"#),
            [""; 0]
        );
        assert_eq!(
            find(br#"{"a":1,"s":{"x":1,"x":2,"x":3},"a":null,"l":[{"n":"1","n":"2"}]}"#),
            ["s.x", "a", "l[0].n"]
        );
        assert_eq!(find(br#"{"a":1,"a":"#), [""; 0]);
    }

    #[test]
    fn json_without_duplicate_keys_is_parsed_as_by_the_parser_of_json() {
        for text in [
            r#" {"a":[1,-2,18446744073709551615,1.0,2.5e300,1e400],"b":{"a":null,"":true}} "#,
            r#""\u00e9\n""#,
            "[]",
            "{}",
            "{} x",
            r#"{"a":}"#,
            "",
        ] {
            let parsed = serde_json::from_str::<Value>(text).ok();
            assert_eq!(parse_distinct(text.as_bytes()), parsed, "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"{"l":[{"a":null,"\u0061":1}]}"#] {
            assert_eq!(parse_distinct(text.as_bytes()), None, "{text}");
        }
    }
}
