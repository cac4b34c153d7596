//! Machine: deserialises YAML into the JSON values that Go makes of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::go::print_double;
use crate::json;

/// A value with texts as keys, whatever the keys were in YAML. The parser refuses numbers that JSON
/// does not have.
pub(super) struct Node(pub(super) Value);

/// A key. An unquoted key that parses as a number or a boolean is written in the form of that
/// value: `on` becomes `true` (`convertToJSONableObject` of `sigs.k8s.io/yaml`).
struct Key(String);

struct Nodes;

struct Keys;

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // SRV-3: each level of a value takes up to 12 kB of stack in an unoptimised build.
        stacker::maybe_grow(128 << 10, 1 << 20, || from.deserialize_any(Nodes)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Keys).map(Self)
    }
}

impl<'de> Visitor<'de> for Nodes {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    // Upstream turns YAML into JSON before it decodes, and Go's encoder writes a whole float as an
    // integer.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let mut value = number.into();
        json::write_whole(&mut value);
        Ok(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(item)) = from.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Key(key), Node(value))) = from.next_entry()? {
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

impl Visitor<'_> for Keys {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is a text, a number or a boolean")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<String, E> {
        Ok(flag.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(print_double(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }
}
