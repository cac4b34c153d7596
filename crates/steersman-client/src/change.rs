//! Machine: what a mutated copy of an object asks the server for, and when to try again.

use serde_json::{Map, Value, json};
use steersman_object::{Kind, Object};

use crate::diff::merge_diff;
use crate::error::Error;
use crate::options::Lock;

/// Metadata that only the server sets. A closure that replaces the metadata as a whole would otherwise ask
/// for their removal.
const SERVER_SET: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Which part of an object a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but what the server sets itself.
    Object,
    /// The status alone, through its subresource.
    Status,
}

/// What to do after a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Read the object from the server and compute the difference anew.
    ReadLive,
    /// Answer the caller.
    GiveUp,
}

/// The mutated copy, and the merge patch that leads to it: `None` where nothing is to be sent.
pub(crate) type Change<K> = (K, Option<Value>);

/// Applies `mutate` to a copy of `before` and computes what to send.
pub(crate) fn change<K: Object>(
    kind: &Kind,
    before: &K,
    part: Part,
    lock: Lock,
    mutate: &mut (impl FnMut(&mut K) + ?Sized),
) -> Result<Change<K>, Error> {
    let mut after = before.clone();
    mutate(&mut after);
    if after.key() != before.key() {
        return Err(Error::Renamed {
            kind: kind.clone(),
            key: before.key(),
            to: after.key(),
        });
    }
    let body = |object: &K| encode(kind, object).map(|body| cut(body, part));
    let Some(difference) = merge_diff(&body(before)?, &body(&after)?) else {
        return Ok((after, None));
    };
    let insists = match lock {
        Lock::Always => true,
        Lock::Lists => difference.writes_list,
        Lock::Never => false,
    };
    let mut patch = difference.patch;
    if let (true, Some(version)) = (insists, &before.meta().resource_version) {
        insert_version(&mut patch, version);
    }
    Ok((after, Some(patch)))
}

/// Whether to try once more, after `attempts` were made and the last one failed with `error`.
pub(crate) fn retry(error: &steersman_api::Error, attempts: u32, allowed: u32) -> Retry {
    if (error.is_conflict() || error.is_already_exists()) && attempts < allowed {
        Retry::ReadLive
    } else {
        Retry::GiveUp
    }
}

/// The object as the JSON that goes over the wire, its type named.
pub(crate) fn encode<K: Object>(kind: &Kind, object: &K) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|source| Error::Encode {
        kind: kind.clone(),
        key: object.key(),
        source,
    })
}

/// Keeps the part that may be changed.
fn cut(mut body: Value, part: Part) -> Value {
    match part {
        Part::Status => {
            let status = body.get_mut("status").map_or(Value::Null, Value::take);
            json!({ "status": status })
        }
        Part::Object => {
            if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                metadata.retain(|name, _| !SERVER_SET.contains(&name.as_str()));
            }
            body
        }
    }
}

fn insert_version(patch: &mut Value, version: &str) {
    let Value::Object(members) = patch else {
        return;
    };
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert("resourceVersion".to_owned(), Value::from(version));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config() -> ConfigMap {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "c", "namespace": "a", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"],
            },
            "data": {"a": "1"},
        }))
        .unwrap()
    }

    fn patch_of(lock: Lock, mut mutate: impl FnMut(&mut ConfigMap)) -> Option<Value> {
        let kind = Kind::of::<ConfigMap>();
        change(&kind, &config(), Part::Object, lock, &mut mutate)
            .unwrap()
            .1
    }

    fn set_b(config: &mut ConfigMap) {
        config
            .data
            .get_or_insert_default()
            .insert("b".into(), "2".into());
    }

    #[test]
    fn nothing_changed_is_nothing_to_send() {
        assert_eq!(patch_of(Lock::Always, |_| {}), None);
        assert_eq!(
            patch_of(Lock::Lists, |c| {
                // What the server sets is not ours to take away.
                c.metadata.uid = None;
                c.metadata.resource_version = None;
                c.metadata.creation_timestamp = None;
                c.metadata.generation = Some(9);
            }),
            None
        );
    }

    /// CLIENT-2
    #[test]
    fn a_list_that_is_written_insists_on_its_version() {
        let push = |c: &mut ConfigMap| {
            c.metadata
                .finalizers
                .get_or_insert_default()
                .push("z".into())
        };
        let locked = json!({"metadata": {"finalizers": ["x/y", "z"], "resourceVersion": "7"}});
        assert_eq!(patch_of(Lock::Lists, push), Some(locked.clone()));
        assert_eq!(patch_of(Lock::Always, push), Some(locked));
        assert_eq!(
            patch_of(Lock::Never, push),
            Some(json!({"metadata": {"finalizers": ["x/y", "z"]}}))
        );
        assert_eq!(
            patch_of(Lock::Lists, set_b),
            Some(json!({"data": {"b": "2"}}))
        );
        assert_eq!(
            patch_of(Lock::Always, set_b),
            Some(json!({"data": {"b": "2"}, "metadata": {"resourceVersion": "7"}}))
        );
    }

    #[test]
    fn the_status_part_is_the_status_alone() {
        let kind = Kind::of::<Deployment>();
        let before: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "status": {"replicas": 1, "readyReplicas": 1},
        }))
        .unwrap();
        let mut mutate = |d: &mut Deployment| {
            d.metadata
                .labels
                .get_or_insert_default()
                .insert("ignored".into(), "here".into());
            d.status.get_or_insert_default().ready_replicas = None;
        };
        let (_, patch) = change(&kind, &before, Part::Status, Lock::Lists, &mut mutate).unwrap();
        assert_eq!(patch, Some(json!({"status": {"readyReplicas": null}})));
        let (_, patch) = change(
            &kind,
            &before,
            Part::Status,
            Lock::Lists,
            &mut |_: &mut _| {},
        )
        .unwrap();
        assert_eq!(patch, None);
    }

    #[test]
    fn an_object_cannot_be_renamed_by_a_change() {
        let kind = Kind::of::<ConfigMap>();
        let mut rename = |c: &mut ConfigMap| c.metadata.name = Some("other".into());
        let error = change(&kind, &config(), Part::Object, Lock::Lists, &mut rename).unwrap_err();
        assert!(
            error.to_string().contains("a/c") && error.to_string().contains("a/other"),
            "{error}"
        );
    }
}
