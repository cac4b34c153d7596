//! Machine: transforms, which change each object before it is stored.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::Value;
use steersman_api::RawObject;
use steersman_object::{Object, decode_json};

/// A change of each object before it is stored: dropped fields take no memory, and no reader or
/// subscriber of the kind sees them. Cheap to clone.
///
/// A transform is called once for each version of an object that arrives. It must be pure, must not call the informer,
/// and must not change key, uid or version. An object for which it fails or panics is malformed for every type.
///
/// Do not write objects of a transformed kind with an update (PUT): the server would remove the dropped fields.
#[derive(Clone, derive_more::Debug)]
#[debug("Transform({name:?})")]
#[must_use]
pub struct Transform {
    name: Arc<str>,
    change: Option<Arc<ChangeFn>>,
}

/// Returns the changed JSON; `None` if the object stays unchanged. The flag: whether errors may quote its values.
type ChangeFn = dyn Fn(&[u8], bool) -> Result<Option<Vec<u8>>, String> + Send + Sync;

/// The annotation with the manifest that `kubectl apply` sent. (kubectl, `LastAppliedConfigAnnotation`)
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Transform {
    /// Returns a transform that changes nothing, to replace a default transform.
    pub fn identity() -> Self {
        Self {
            name: "identity".into(),
            change: None,
        }
    }

    /// Returns a transform that drops the annotation with the manifest of `kubectl apply`. The annotation is up to half
    /// of such an object, and only kubectl reads it.
    pub fn strip_last_applied() -> Self {
        // An encoder may escape the `/` of the annotation's name, so only the part behind it is searched.
        let noted = Finder::new("last-applied-configuration");
        Self::new("strip last-applied-configuration", move |json, quotes| {
            // An object without the annotation is not parsed.
            if noted.find(json).is_none() {
                return Ok(None);
            }
            let mut value: Value = decode_json(json, quotes)?;
            let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(metadata) = metadata
                && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
            {
                annotations.remove(LAST_APPLIED);
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
            encoded(&value).map(Some)
        })
    }

    /// Returns a transform that applies `self` and then `other`.
    pub fn then(self, other: Self) -> Self {
        let (Some(first), Some(second)) = (&self.change, &other.change) else {
            return if self.is_identity() { other } else { self };
        };
        let (first, second) = (Arc::clone(first), Arc::clone(second));
        let name = format!("{}, then {}", self.name, other.name);
        Self::new(&name, move |json, quotes| {
            let changed = first(json, quotes)?;
            let again = second(changed.as_deref().unwrap_or(json), quotes)?;
            Ok(again.or(changed))
        })
    }

    /// Returns a transform of the JSON of an object. Error messages contain `name`.
    pub fn json<E: fmt::Display>(
        name: impl AsRef<str>,
        change: impl Fn(&mut Value) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.as_ref(), move |json, quotes| {
            let mut value: Value = decode_json(json, quotes)?;
            change(&mut value).map_err(|error| error.to_string())?;
            encoded(&value).map(Some)
        })
    }

    /// Returns a transform of the object decoded as a `K`. Fields that `K` does not have are dropped.
    pub fn typed<K: Object, E: fmt::Display>(
        name: impl AsRef<str>,
        change: impl Fn(&mut K) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.as_ref(), move |json, quotes| {
            let mut object: K = decode_json(json, quotes)?;
            change(&mut object).map_err(|error| error.to_string())?;
            encoded(&object).map(Some)
        })
    }

    fn new(
        name: &str,
        change: impl Fn(&[u8], bool) -> Result<Option<Vec<u8>>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            change: Some(Arc::new(change)),
        }
    }

    /// Returns the name of the transform. Error messages contain it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the transform changes no object.
    pub fn is_identity(&self) -> bool {
        self.change.is_none()
    }

    pub(crate) fn apply(&self, object: RawObject, quotes: bool) -> Result<RawObject, String> {
        let Some(change) = &self.change else {
            return Ok(object);
        };
        let failed = |problem| format!("the transform {:?} failed: {problem}", self.name);
        let changed = catch_unwind(AssertUnwindSafe(|| change(object.json(), quotes)));
        let changed = changed.unwrap_or_else(|_| Err("it panicked".to_owned()));
        let Some(changed) = changed.map_err(failed)? else {
            return Ok(object);
        };
        let changed = RawObject::from_json(changed).map_err(failed)?;
        let (old, new) = (object.head(), changed.head());
        if old.key != new.key || old.uid != new.uid || old.version != new.version {
            return Err(format!(
                "the transform {:?} changed the key, the uid or the version",
                self.name
            ));
        }
        // The digests of applies stay, because they describe the object as the server has it.
        Ok(changed.with_applies(object.applies().into()))
    }
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

/// Two transforms are equal if one is a clone of the other.
impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        match (&self.change, &other.change) {
            (None, None) => true,
            (Some(one), Some(another)) => Arc::ptr_eq(one, another),
            _ => false,
        }
    }
}

impl Eq for Transform {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map() -> RawObject {
        let json = br#"{"metadata":{"name":"a","resourceVersion":"7"},"data":{"k":"v"}}"#;
        RawObject::from_json(&json[..]).unwrap()
    }

    fn drop_data() -> Transform {
        Transform::typed("drop data", |map: &mut ConfigMap| {
            map.data = None;
            Ok::<_, String>(())
        })
    }

    #[test]
    fn an_object_is_changed_as_a_type_or_as_json() {
        let json = Transform::json("drop data", |value| {
            value.as_object_mut().ok_or("no object")?.remove("data");
            Ok::<_, &str>(())
        });
        for transform in [drop_data(), json] {
            let changed = transform.apply(map(), true).unwrap();
            assert_eq!(changed.head(), map().head());
            assert!(!String::from_utf8_lossy(changed.json()).contains("data\":{\"k"));
        }
        let same = Transform::identity().apply(map(), true).unwrap();
        assert_eq!(same.json(), map().json());
    }

    #[test]
    fn errors_name_the_transform() {
        let failing = Transform::json("fail", |_| Err::<(), _>("no luck"));
        let panicking = Transform::typed("panic", |_: &mut ConfigMap| -> Result<(), String> {
            panic!("on purpose")
        });
        let renaming = Transform::typed("rename", |map: &mut ConfigMap| {
            map.metadata.name = Some("b".into());
            Ok::<_, String>(())
        });
        for (transform, problem) in [
            (failing, "the transform \"fail\" failed: no luck"),
            (panicking, "the transform \"panic\" failed: it panicked"),
            (
                renaming,
                "the transform \"rename\" changed the key, the uid or the version",
            ),
        ] {
            assert_eq!(transform.apply(map(), true).unwrap_err(), problem);
        }
    }

    fn changed(transform: &Transform, object: &Value) -> Value {
        let object = RawObject::from_json(object.to_string().into_bytes()).unwrap();
        serde_json::from_slice(transform.apply(object, true).unwrap().json()).unwrap()
    }

    #[test]
    fn only_the_annotation_of_kubectl_apply_is_dropped() {
        let strip = Transform::strip_last_applied();
        let with = |annotations: Value| {
            json!({
                "metadata": {"name": "a", "annotations": annotations},
                "data": {LAST_APPLIED: "kept"},
            })
        };
        let noted = changed(&strip, &with(json!({LAST_APPLIED: "{}", "b": "c"})));
        assert_eq!(noted, with(json!({"b": "c"})));
        let alone = changed(&strip, &with(json!({LAST_APPLIED: "{}"})));
        assert_eq!(
            alone,
            json!({"metadata": {"name": "a"}, "data": {LAST_APPLIED: "kept"}})
        );
        let other = with(json!({"b": "c"}));
        assert_eq!(changed(&strip, &other), other);
        let untouched = strip.apply(map(), true).unwrap();
        assert_eq!(untouched.json(), map().json());
    }

    #[test]
    fn then_applies_both_transforms_in_order() {
        let append = |text: &'static str| {
            Transform::typed(text, move |map: &mut ConfigMap| {
                map.data
                    .get_or_insert_default()
                    .entry("k".into())
                    .or_default()
                    .push_str(text);
                Ok::<_, String>(())
            })
        };
        let both = append("1").then(append("2"));
        assert_eq!(both.name(), "1, then 2");
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(changed(&both, &object)["data"]["k"], "12");
        let strip = Transform::strip_last_applied;
        for both in [strip().then(append("1")), append("1").then(strip())] {
            assert_eq!(changed(&both, &object)["data"]["k"], "1");
        }
        for alone in [
            Transform::identity().then(append("1")),
            append("1").then(Transform::identity()),
        ] {
            assert_eq!(alone.name(), "1");
        }
        assert!(
            Transform::identity()
                .then(Transform::identity())
                .is_identity()
        );
    }

    #[test]
    fn a_transform_equals_its_clone_only() {
        let one = drop_data();
        assert_eq!(one, one.clone());
        assert_ne!(one, drop_data());
        assert_ne!(one, Transform::identity());
        assert_eq!(Transform::identity(), Transform::identity());
    }
}
