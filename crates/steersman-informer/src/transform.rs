//! Machine: what is changed of each object before anybody sees it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Serialize;
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
    change: Option<Arc<ChangeFn>>,
}

/// The changed JSON, or nothing where it stays as it is.
type ChangeFn = dyn Fn(&[u8], bool) -> Result<Option<Vec<u8>>, String> + Send + Sync;

/// What `kubectl apply` notes of an object: all of its manifest. (kubectl, `LastAppliedConfigAnnotation`)
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Transform {
    /// Changes nothing, and takes the place of a default that does.
    pub fn identity() -> Self {
        Self {
            name: "identity".into(),
            change: None,
        }
    }

    /// Drops the annotation in which `kubectl apply` keeps the whole manifest: up to half of an object that
    /// was made so, and of no use to anybody else.
    pub fn strip_last_applied() -> Self {
        // Without the part that some write with escapes.
        let noted = Finder::new("last-applied-configuration");
        Self::new("strip last-applied-configuration", move |json, quotes| {
            // Most objects were made by programs: these are not parsed for it.
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

    /// Changes an object by this, and what comes of it by another.
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

    /// Changes the JSON of an object. `name` is for people: errors name the transform by it.
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

    /// Changes an object as a `K`, which it is decoded as for that and encoded again: what `K` does
    /// not have is dropped.
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
        Ok(changed)
    }
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
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

    fn changed(transform: &Transform, object: &Value) -> Value {
        let object = RawObject::from_json(object.to_string().into_bytes()).unwrap();
        serde_json::from_slice(transform.apply(object, true).unwrap().json()).unwrap()
    }

    #[test]
    fn what_kubectl_noted_is_dropped_and_nothing_else() {
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
    fn one_transform_follows_another() {
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
    fn a_transform_is_the_same_as_its_clone() {
        let one = drop_data();
        assert_eq!(one, one.clone());
        assert_ne!(one, drop_data());
        assert_ne!(one, Transform::identity());
        assert_eq!(Transform::identity(), Transform::identity());
    }
}
