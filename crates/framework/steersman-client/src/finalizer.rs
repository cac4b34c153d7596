//! Machine: adds and removes finalizers, and finds the state of an object with respect to a finalizer.

use steersman_object::{AsObject, Object};

/// The state of an object with respect to one finalizer. The owner of the finalizer chooses its next step by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStage {
    /// The object is not being deleted and lacks the finalizer: add it before making anything outside the object.
    Missing,
    /// The object is not being deleted and has the finalizer: reconcile the object.
    Held,
    /// The object is being deleted and has the finalizer: clean up, then remove the finalizer.
    CleanUp,
    /// The object is being deleted and lacks the finalizer: nothing is left to do.
    Released,
}

/// Returns whether the object lists this finalizer in its metadata.
pub fn contains<K: Object>(object: &impl AsObject<K>, finalizer: &str) -> bool {
    let finalizers = &object.as_object().meta().finalizers;
    finalizers.iter().flatten().any(|name| name == finalizer)
}

/// Adds a finalizer to a local copy, behind the existing ones; returns false if the copy has it already.
///
/// Kubernetes requires names of the form `domain/name`, such as `example.com/cleanup`, and refuses to add a finalizer
/// to an object that is being deleted.
pub fn add<K: Object>(object: &mut K, finalizer: &str) -> bool {
    let absent = !contains(object, finalizer);
    if absent {
        let finalizers = object.meta_mut().finalizers.get_or_insert_default();
        finalizers.push(finalizer.to_owned());
    }
    absent
}

/// Adds several finalizers to a local copy, in their order, behind the existing ones; returns false if the copy has all
/// of them.
///
/// Adds nothing to an object that is being deleted, and returns false, because Kubernetes would refuse the change.
pub fn add_all<K: Object>(object: &mut K, finalizers: &[impl AsRef<str>]) -> bool {
    if object.is_being_deleted() {
        return false;
    }
    let mut is_changed = false;
    for finalizer in finalizers {
        is_changed |= add(object, finalizer.as_ref());
    }
    is_changed
}

/// Removes a finalizer from a local copy; returns false if the copy does not have it.
pub fn remove<K: Object>(object: &mut K, finalizer: &str) -> bool {
    let present = contains(object, finalizer);
    if present {
        let finalizers = object.meta_mut().finalizers.get_or_insert_default();
        finalizers.retain(|other| other != finalizer);
    }
    present
}

/// Returns the state of the object with respect to one finalizer: the finalizer's owner chooses its next step by it.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_client::finalizer::{self, FinalizerStage};
///
/// let mut config = ConfigMap::default();
/// assert_eq!(finalizer::stage(&config, "example.com/cleanup"), FinalizerStage::Missing);
/// finalizer::add(&mut config, "example.com/cleanup");
/// assert_eq!(finalizer::stage(&config, "example.com/cleanup"), FinalizerStage::Held);
/// ```
pub fn stage<K: Object>(object: &impl AsObject<K>, finalizer: &str) -> FinalizerStage {
    let object = object.as_object();
    match (object.is_being_deleted(), contains(object, finalizer)) {
        (false, false) => FinalizerStage::Missing,
        (false, true) => FinalizerStage::Held,
        (true, true) => FinalizerStage::CleanUp,
        (true, false) => FinalizerStage::Released,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const OURS: &str = "example.com/cleanup";

    fn config(deleting: bool, finalizers: &[&str]) -> ConfigMap {
        let mut config: ConfigMap = serde_json::from_value(serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "finalizers": finalizers},
        }))
        .unwrap();
        if deleting {
            let time = serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap();
            config.metadata.deletion_timestamp = Some(time);
        }
        config
    }

    #[test]
    fn the_stage_follows_from_deletion_and_presence() {
        for (deleting, finalizers, expected) in [
            (false, vec!["x/y"], FinalizerStage::Missing),
            (false, vec!["x/y", OURS], FinalizerStage::Held),
            (true, vec![OURS], FinalizerStage::CleanUp),
            (true, vec!["x/y"], FinalizerStage::Released),
        ] {
            assert_eq!(stage(&config(deleting, &finalizers), OURS), expected);
        }
    }

    #[test]
    fn adding_and_removing_twice_changes_nothing() {
        let mut object = config(false, &["x/y"]);
        assert!(add(&mut object, OURS) && !add(&mut object, OURS));
        assert_eq!(object.metadata.finalizers.as_ref().unwrap(), &["x/y", OURS]);
        assert!(remove(&mut object, OURS) && !remove(&mut object, OURS));
        assert_eq!(object.metadata.finalizers.unwrap(), ["x/y"]);
    }

    #[test]
    fn several_finalizers_are_added_in_order_and_to_no_deleted_object() {
        let mut object = config(false, &["x/y", OURS]);
        let names = ["a/first", OURS, "b/second"];
        assert!(add_all(&mut object, &names) && !add_all(&mut object, &names));
        let expected = ["x/y", OURS, "a/first", "b/second"];
        assert_eq!(object.metadata.finalizers.unwrap(), expected);
        let mut deleted = config(true, &["x/y"]);
        assert!(!add_all(&mut deleted, &names));
        assert_eq!(deleted.metadata.finalizers.unwrap(), ["x/y"]);
    }
}
