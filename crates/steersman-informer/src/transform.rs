//! Machine: what is changed of each object before anybody sees it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use steersman_api::{RawObject, decode_json};
use steersman_object::Object;

/// Changes each object before it is stored: what a transform drops takes no memory, and is seen by
/// nobody who reads or watches the kind, whatever they look at it as. Cheap to clone.
///
/// It is called once for each version of an object that arrives, and must be pure: it depends on the
/// object alone, and calls nothing of the informer. Key, uid and version have to stay. An object for
/// which it fails or panics is kept aside, as one that nobody can read.
///
/// Who transforms a kind must not write its objects back with an update (PUT): the server would take
/// what was dropped for removed.
#[derive(Clone)]
#[must_use]
pub struct Transform {
    name: Arc<str>,
    change: Option<Arc<Change>>,
}

type Change = dyn Fn(&[u8], bool) -> Result<Vec<u8>, String> + Send + Sync;

impl Transform {
    /// Changes nothing, and takes the place of a default that does.
    pub fn identity() -> Self {
        Self {
            name: "identity".into(),
            change: None,
        }
    }

    /// Changes the JSON of an object. `name` is for people: errors name the transform by it.
    pub fn json<E: fmt::Display>(
        name: impl AsRef<str>,
        change: impl Fn(&mut Value) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.as_ref(), move |json, quotes| {
            let mut value: Value = decode_json(json, quotes)?;
            change(&mut value).map_err(|error| error.to_string())?;
            serde_json::to_vec(&value).map_err(|error| error.to_string())
        })
    }

    /// Changes an object as a `K`, which it is decoded as for that and encoded again: what `K` does
    /// not have is dropped.
    pub fn typed<K: Object, E: fmt::Display>(
        name: impl AsRef<str>,
        change: impl Fn(&mut K) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.as_ref(), move |json, quotes| {
            let mut object: K = decode_json(json, quotes)?;
            change(&mut object).map_err(|error| error.to_string())?;
            serde_json::to_vec(&object).map_err(|error| error.to_string())
        })
    }

    fn new(
        name: &str,
        change: impl Fn(&[u8], bool) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            change: Some(Arc::new(change)),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it changes nothing, whatever the object.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.change.is_none()
    }

    /// The changed object, or what went wrong.
    pub(crate) fn apply(&self, object: RawObject, quotes: bool) -> Result<RawObject, String> {
        let Some(change) = &self.change else {
            return Ok(object);
        };
        let changed = catch_unwind(AssertUnwindSafe(|| change(object.json(), quotes)));
        let changed = changed
            .unwrap_or_else(|_| Err("it panicked".to_owned()))
            .and_then(RawObject::from_json)
            .map_err(|problem| format!("the transform {:?} failed: {problem}", self.name))?;
        let (old, new) = (object.head(), changed.head());
        if old.key != new.key || old.uid != new.uid || old.version != new.version {
            return Err(format!(
                "the transform {:?} changed the key, the uid or the version",
                self.name
            ));
        }
        Ok(changed)
    }
}

/// Two are the same where one is a clone of the other.
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

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transform").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

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
    fn what_goes_wrong_names_the_transform() {
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

    #[test]
    fn a_transform_is_the_same_as_its_clone() {
        let one = drop_data();
        assert_eq!(one, one.clone());
        assert_ne!(one, drop_data());
        assert_ne!(one, Transform::identity());
        assert_eq!(Transform::identity(), Transform::identity());
    }
}
