//! Machine: finds out whether a Rust type has a status.

use std::cell::Cell;

use serde::Deserializer;
use serde::de::value::Error as Refused;
use serde::de::{Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::json;
use steersman_object::{Kind, Object};

use super::change::encode;
use crate::error::Error;

/// Returns whether the Rust type of `object` has a field `status`. A closure that changes an object without this field
/// cannot change a status.
pub(crate) fn has_status<K: Object>(kind: &Kind, object: &K) -> Result<bool, Error> {
    let fields = Cell::new(None);
    // The result is always an error: `FieldNames` only records the names of the fields that the type asks for.
    let _refused = K::deserialize(FieldNames(&fields));
    if let Some(fields) = fields.get() {
        return Ok(fields.contains(&"status"));
    }
    // Some types, such as `DynamicObject`, do not name their fields. An object of such a type is decoded and encoded
    // again with a status, to see whether the type keeps the status.
    let mut body = encode(kind, || object.key(), object)?;
    if let Some(members) = body.as_object_mut() {
        members.insert("status".to_owned(), json!({"phase": "Known"}));
    }
    let Ok(with_status) = serde_json::from_value::<K>(body) else {
        return Ok(true);
    };
    let kept = encode(kind, || with_status.key(), &with_status)?;
    Ok(!kept["status"].is_null())
}

/// A deserializer that records the field names of a struct, and then returns an error.
struct FieldNames<'a>(&'a Cell<Option<&'static [&'static str]>>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(Refused::custom("only the fields are asked for"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.0.set(Some(fields));
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    use kube_core::{DynamicObject, PartialObjectMeta};
    use steersman_object::TypedObject;

    use super::*;

    #[test]
    fn a_type_without_a_status_field_has_no_status() {
        fn of<K: TypedObject + Default>() -> bool {
            has_status(&Kind::of::<K>(), &K::default()).unwrap()
        }
        assert!(of::<Deployment>() && of::<Pod>());
        assert!(!of::<ConfigMap>() && !of::<Secret>());
        let kind = Kind::of::<Deployment>();
        let meta = PartialObjectMeta::<Deployment>::default();
        assert!(!has_status(&kind, &meta).unwrap());
        let dynamic = DynamicObject::new("d", &kind.api_resource());
        assert!(has_status(&kind, &dynamic).unwrap());
    }
}
