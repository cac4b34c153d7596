//! Machine: finds the keys that occur twice in one object of a JSON body.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// Returns the paths of duplicate keys, for instance `spec.image`. Empty for a body that is no
/// JSON: the decoder reports that.
pub fn find(body: &[u8]) -> Vec<String> {
    let found = in_vain(body, &[]).into_iter();
    found
        .filter_map(|one| {
            Some(
                one.strip_prefix("duplicate field \"")?
                    .strip_suffix('"')?
                    .to_owned(),
            )
        })
        .collect()
}

/// Returns the messages about ignored parts of a JSON body, as the real server words them: the
/// `unknown` fields and the duplicate keys, in the order of the body.
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

/// Returns whether a body is valid JSON in which no object has a key twice.
pub fn are_absent(body: &[u8]) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = Distinct::deserialize(&mut reader);
    read.is_ok() && reader.end().is_ok()
}

/// A JSON value without duplicate keys, which is not kept.
struct Distinct;

struct DistinctVisitor;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor)
    }
}

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value without duplicate keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if !seen.insert(key) {
                return Err(A::Error::custom("a duplicate key"));
            }
            map.next_value::<Distinct>()?;
        }
        Ok(Distinct)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Distinct, A::Error> {
        while items.next_element::<Distinct>()?.is_some() {}
        Ok(Distinct)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(Distinct)
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
                // The value of a duplicate key is ignored, with all keys inside.
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
}
