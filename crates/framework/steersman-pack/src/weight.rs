//! Machine: estimates the memory of a decoded object by observing its decoding.
//!
//! A value does not report how much it has allocated. But `Deserialize` names the type, and so the size, of each
//! element, and the decoder knows the length of each text.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    Visitor,
};

/// The bytes that an allocator adds to each allocation, and (`GRAIN`) the multiple to which it rounds.
const HEADER: usize = 8;
const GRAIN: usize = 16;
/// One byte in this many is lost between allocations of different sizes, as measured with 64 MiB of Pods.
const LOST: usize = 32;
/// The capacity of a `BTreeMap` node, and the usual number of entries in a node.
const NODE: usize = 11;
const FILLED: usize = 7;

/// Returns the approximate memory of a `K` decoded from this JSON, in bytes; `None` if it does not decode.
pub(crate) fn weigh<K: DeserializeOwned>(json: &[u8]) -> Option<usize> {
    let scale = Scale(Cell::new(allocated(size_of::<K>() + GRAIN)));
    let weighed = catch_unwind(AssertUnwindSafe(|| {
        let mut json = serde_json::Deserializer::from_slice(json);
        K::deserialize(scale.weighing(&mut json)).is_ok()
    }));
    let bytes = scale.0.into_inner();
    weighed.unwrap_or(false).then_some(bytes + bytes / LOST)
}

fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        _ => (bytes + HEADER).next_multiple_of(GRAIN),
    }
}

/// Returns the capacity of a `Vec` to which this number of elements was pushed.
fn grown(count: usize, each: usize) -> usize {
    let least = match each {
        0..=1 => 8,
        2..=1024 => 4,
        _ => 1,
    };
    match count {
        0 => 0,
        _ => count.next_power_of_two().max(least),
    }
}

struct Scale(Cell<usize>);

/// Wraps a deserializer, and sums up the memory of the decoded values.
struct WeighingDeserializer<'s, T> {
    inner: T,
    scale: &'s Scale,
}

/// Wraps a visitor, and sums up the memory of what it is given.
struct WeighingVisitor<'s, V> {
    visitor: V,
    scale: &'s Scale,
    requested: Requested,
}

/// The sort of value that a type asks its deserializer for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requested {
    /// A value that may own text.
    Text,
    /// A value that may own entries.
    Map,
    /// A value of any sort.
    Any,
    /// A value without allocations of its own.
    InPlace,
}

/// Wraps the access to a list or map, and records the largest size of an element.
struct WeighingAccess<'s, A> {
    access: A,
    scale: &'s Scale,
    count: usize,
    each: usize,
    /// Whether the elements are stored in a collection, not in the fields of a struct.
    is_collection: bool,
}

impl Scale {
    fn add(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    /// Wraps a deserializer or a seed, so that the memory of its values is added.
    fn weighing<T>(&self, inner: T) -> WeighingDeserializer<'_, T> {
        WeighingDeserializer { inner, scale: self }
    }
}

macro_rules! asks {
    ($($method:ident($($argument:ident: $type:ty),*) => $requested:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            let visits = WeighingVisitor { visitor, scale: self.scale, requested: Requested::$requested };
            self.inner.$method($($argument,)* visits)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WeighingDeserializer<'_, D> {
    type Error = D::Error;

    asks! {
        deserialize_any() => Any,
        deserialize_bool() => InPlace,
        deserialize_i8() => InPlace,
        deserialize_i16() => InPlace,
        deserialize_i32() => InPlace,
        deserialize_i64() => InPlace,
        deserialize_u8() => InPlace,
        deserialize_u16() => InPlace,
        deserialize_u32() => InPlace,
        deserialize_u64() => InPlace,
        deserialize_f32() => InPlace,
        deserialize_f64() => InPlace,
        deserialize_char() => InPlace,
        deserialize_str() => Text,
        deserialize_string() => Text,
        deserialize_bytes() => Text,
        deserialize_byte_buf() => Text,
        deserialize_option() => InPlace,
        deserialize_unit() => InPlace,
        deserialize_unit_struct(name: &'static str) => InPlace,
        deserialize_newtype_struct(name: &'static str) => InPlace,
        deserialize_seq() => InPlace,
        deserialize_tuple(len: usize) => InPlace,
        deserialize_tuple_struct(name: &'static str, len: usize) => InPlace,
        deserialize_map() => Map,
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) => InPlace,
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) => InPlace,
        deserialize_identifier() => InPlace,
        deserialize_ignored_any() => InPlace,
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visits {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })*
    };
}

impl<V> WeighingVisitor<'_, V> {
    fn text(&self, length: usize) {
        if matches!(self.requested, Requested::Text | Requested::Any) {
            self.scale.add(allocated(length));
        }
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WeighingVisitor<'_, V> {
    type Value = V::Value;

    visits! {
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_f64: f64,
        visit_char: char,
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<V::Value, E> {
        self.text(text.len());
        self.visitor.visit_str(text)
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.text(text.len());
        self.visitor.visit_borrowed_str(text)
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<V::Value, E> {
        self.text(text.len());
        self.visitor.visit_string(text)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<V::Value, E> {
        self.text(bytes.len());
        self.visitor.visit_bytes(bytes)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(self.scale.weighing(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor
            .visit_newtype_struct(self.scale.weighing(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        let mut access = WeighingAccess::new(list, self.scale, true);
        let made = self.visitor.visit_seq(&mut access)?;
        let room = grown(access.count, access.each) * access.each;
        self.scale.add(allocated(room));
        Ok(made)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let is_collection = matches!(self.requested, Requested::Map | Requested::Any);
        let mut access = WeighingAccess::new(map, self.scale, is_collection);
        let made = self.visitor.visit_map(&mut access)?;
        if is_collection {
            let node = allocated(NODE * access.each + GRAIN);
            self.scale.add(access.count.div_ceil(FILLED) * node);
        }
        Ok(made)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(data)
    }
}

impl<'s, A> WeighingAccess<'s, A> {
    fn new(access: A, scale: &'s Scale, is_collection: bool) -> Self {
        Self {
            access,
            scale,
            count: 0,
            each: 0,
            is_collection,
        }
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for &mut WeighingAccess<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        let next = self.access.next_element_seed(self.scale.weighing(seed))?;
        if next.is_some() {
            self.count += 1;
            self.each = self.each.max(size_of::<T::Value>());
        }
        Ok(next)
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut WeighingAccess<'_, A> {
    type Error = A::Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        // Field names of a struct are compared, and not stored.
        if !self.is_collection {
            return self.access.next_key_seed(seed);
        }
        let next = self.access.next_key_seed(self.scale.weighing(seed))?;
        self.count += usize::from(next.is_some());
        Ok(next)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        // The keys of a JSON object are text.
        self.each = self.each.max(size_of::<String>() + size_of::<T::Value>());
        self.access.next_value_seed(self.scale.weighing(seed))
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for WeighingDeserializer<'_, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.inner.deserialize(self.scale.weighing(inner))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube_core::DynamicObject;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        let env =
            |number: usize| json!({"name": format!("SETTING_{number}"), "value": "some value"});
        let env: Vec<Value> = (0..10).map(env).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "default", "uid": "6f2c9d54-0000-4000-a000",
                "creationTimestamp": "2026-11-01T10:20:30Z", "labels": {"app": "a", "of": "b"},
            },
            "spec": {
                "containers": [
                    {"name": "one", "image": "registry.example.com/one:1.2.3", "env": env,
                        "resources": {"limits": {"memory": "512Mi"}}},
                    {"name": "two", "image": "registry.example.com/two:1.2.3", "env": env},
                ],
                "nodeName": "node-1",
            },
        })
    }

    fn compare<T: DeserializeOwned>(value: &Value) {
        let text = value.to_string();
        let mut made = None;
        let counted = allocation_counter::measure(|| {
            made = Some(Box::new(serde_json::from_str::<T>(&text).unwrap()));
        });
        let real = usize::try_from(counted.bytes_current).unwrap();
        let weighed = weigh::<T>(text.as_bytes()).unwrap();
        let near = real * 3 / 4..real * 3 / 2;
        assert!(near.contains(&weighed), "{real} bytes weigh {weighed}");
    }

    #[test]
    fn weights_are_close_to_the_allocated_bytes() {
        compare::<Pod>(&pod());
        compare::<DynamicObject>(&pod());
        compare::<Value>(&pod());
        let data: serde_json::Map<String, Value> = (0..100)
            .map(|number| (format!("key-{number}"), "value".repeat(number).into()))
            .collect();
        let map = json!({"metadata": {"name": "a"}, "data": data});
        compare::<ConfigMap>(&map);
        compare::<DynamicObject>(&map);
    }

    #[test]
    fn json_that_does_not_decode_has_no_weight() {
        struct Never;
        impl<'de> Deserialize<'de> for Never {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                panic!("it cannot")
            }
        }
        assert_eq!(weigh::<Never>(b"{}"), None);
        assert_eq!(weigh::<Pod>(b"[]"), None);
    }
}
