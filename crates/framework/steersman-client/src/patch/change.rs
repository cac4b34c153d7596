//! Machine: turns a mutated copy of an object into a patch, and decides whether to try again after a conflict.

use serde::Serialize;
use serde_json::{Value, json};
use steersman_api::Patch;
use steersman_object::{Kind, Object, ObjectKey};

use super::diff::merge_diff;
use super::strategic::{Inexpressible, fields_of, strategic_diff};
use crate::error::Error;
use crate::options::OptimisticLock;

/// The metadata fields that only the server sets. Patches leave them out: a closure that replaces the whole metadata
/// would otherwise remove them.
pub(crate) const SERVER_SET: &[&str] = &[
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
    "managedFields", "resourceVersion", "selfLink", "uid",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangedPart {
    /// Every field except the metadata that only the server sets.
    Object,
    /// Every field except the status and the metadata that only the server sets. The status is sent afterwards, because
    /// the server changes it only through its subresource.
    WithoutStatus,
    /// Only the status, sent through its subresource.
    Status,
}

/// How the difference between two states of an object is sent: of which fields, with which lock, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchMode {
    pub(crate) part: ChangedPart,
    /// When the patch carries the resource version that it was computed from.
    pub(crate) lock: OptimisticLock,
    /// Whether to send a strategic merge patch for a kind that has merge keys.
    pub(crate) strategic: bool,
}

/// The changed copy of an object, and the patch from the object to the copy; the patch is `None` if nothing changed.
pub(crate) type Change<K> = (K, Option<Patch>);

/// Changes a copy of `before` with `mutate`, and computes the patch from `before` to the copy.
pub(crate) fn change<K: Object>(
    kind: &Kind,
    before: &K,
    mode: PatchMode,
    mutate: &mut (impl FnMut(&mut K) + ?Sized),
) -> Result<Change<K>, Error> {
    let PatchMode { part, lock, .. } = mode;
    let mut after = before.clone();
    mutate(&mut after);
    let (key, to) = (before.key(), after.key());
    if to != key {
        return Err(Error::Renamed {
            kind: kind.clone(),
            key,
            to,
        });
    }
    let body = |object: &K| encode(kind, || key.clone(), object).map(|body| cut(body, part));
    let (was, is) = (body(before)?, body(&after)?);
    let merging = fields_of(kind).filter(|_| mode.strategic);
    let (strategic, difference) = match merging.map(|fields| strategic_diff(fields, &was, &is)) {
        Some(Ok(difference)) => (true, difference),
        Some(Err(Inexpressible)) | None => (false, merge_diff(&was, &is)),
    };
    let Some(difference) = difference else {
        return Ok((after, None));
    };
    let insists = match (lock, part) {
        (OptimisticLock::Never, _) => false,
        // CLIENT-3: the server does not compare the uid in a patch of a custom resource's status, so the version keeps
        // the patch from changing another object of the same name.
        (OptimisticLock::Always, _) | (OptimisticLock::Lists, ChangedPart::Status) => true,
        (OptimisticLock::Lists, ChangedPart::Object | ChangedPart::WithoutStatus) => {
            difference.writes_list
        }
    };
    let mut patch = difference.patch;
    let meta = before.meta();
    // CLIENT-3: the uid keeps the patch from changing another object of the same name.
    stamp(&mut patch, "uid", meta.uid.as_deref());
    let version = meta.resource_version.as_deref().filter(|_| insists);
    stamp(&mut patch, "resourceVersion", version);
    let patch = match strategic {
        true => Patch::Strategic(patch),
        false => Patch::Merge(patch),
    };
    Ok((after, Some(patch)))
}

/// Returns whether the object is read live, and the difference computed again, after the server refused it with
/// `error`. `attempts` is the number of attempts so far, and `allowed` the largest number of attempts.
pub(crate) fn is_tried_again(error: &steersman_api::Error, attempts: u32, allowed: u32) -> bool {
    let passing = error.is_conflict() || error.is_already_exists() || is_of_another(error);
    passing && attempts < allowed
}

/// Returns whether the server refused a change because the name now belongs to an object with another uid.
pub(crate) fn is_of_another(error: &steersman_api::Error) -> bool {
    let Some(status) = error.status() else {
        return false;
    };
    // The server refuses a patch with another uid as an invalid change of `metadata.uid` (422), and an update with
    // another uid by a precondition of its storage (409).
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    (error.is_conflict() && status.message.contains("UID in precondition"))
        || (error.is_invalid() && causes.any(|cause| cause.field == "metadata.uid"))
}

/// Returns whether `read` has another uid than `before`: it is another object of the same name.
pub(crate) fn is_another<K: Object>(before: &K, read: &K) -> bool {
    !before.uid_str().is_empty() && before.uid_str() != read.uid_str()
}

/// Refuses an update with an object that has no resource version: the update would overwrite changes of other clients.
pub(crate) fn check_version<K: Object>(kind: &Kind, object: &K) -> Result<(), Error> {
    let version = object.meta().resource_version.as_deref();
    if version.unwrap_or_default().is_empty() {
        return Err(Error::VersionMissing {
            kind: kind.clone(),
            key: object.key(),
        });
    }
    Ok(())
}

/// Encodes an object, or a part of an object, as JSON. `key` returns the key of the object for an error.
pub(crate) fn encode(
    kind: &Kind,
    key: impl FnOnce() -> ObjectKey,
    part: &impl Serialize,
) -> Result<Value, Error> {
    serde_json::to_value(part).map_err(|source| Error::Encode {
        kind: kind.clone(),
        key: key(),
        source,
    })
}

fn cut(mut body: Value, part: ChangedPart) -> Value {
    match part {
        ChangedPart::Status => {
            let status = body.get_mut("status").map_or(Value::Null, Value::take);
            json!({ "status": status })
        }
        ChangedPart::Object | ChangedPart::WithoutStatus => {
            if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                metadata.retain(|name, _| !SERVER_SET.contains(&name.as_str()));
            }
            if let (ChangedPart::WithoutStatus, Value::Object(members)) = (part, &mut body) {
                members.remove("status");
            }
            body
        }
    }
}

/// Adds the uid or the resource version to the `metadata` of a patch; adds nothing if `value` is `None` or empty. The
/// server refuses the patch if the object has another value.
fn stamp(patch: &mut Value, field: &str, value: Option<&str>) {
    let (Value::Object(members), Some(value)) = (patch, value.filter(|v| !v.is_empty())) else {
        return;
    };
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.insert(field.to_owned(), Value::from(value));
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

    fn mode(part: ChangedPart, lock: OptimisticLock) -> PatchMode {
        PatchMode {
            part,
            lock,
            strategic: false,
        }
    }

    fn merge(patch: Option<Patch>) -> Option<Value> {
        patch.map(|patch| match patch {
            Patch::Merge(patch) => patch,
            other => panic!("no merge patch: {other:?}"),
        })
    }

    fn patch_of(lock: OptimisticLock, mut mutate: impl FnMut(&mut ConfigMap)) -> Option<Value> {
        let (kind, mode) = (Kind::of::<ConfigMap>(), mode(ChangedPart::Object, lock));
        let changed = change(&kind, &config(), mode, &mut mutate).unwrap();
        merge(changed.1)
    }

    fn set_b(config: &mut ConfigMap) {
        config
            .data
            .get_or_insert_default()
            .insert("b".into(), "2".into());
    }

    #[test]
    fn a_closure_without_changes_sends_nothing() {
        assert_eq!(patch_of(OptimisticLock::Always, |_| {}), None);
        assert_eq!(
            patch_of(OptimisticLock::Lists, |c| {
                // The removal of a field that only the server sets is not sent.
                c.metadata.uid = None;
                c.metadata.resource_version = None;
                c.metadata.creation_timestamp = None;
                c.metadata.generation = Some(9);
            }),
            None
        );
    }

    /// CLIENT-2: a merge patch replaces the whole list. Without the version, elements that other clients added
    /// meanwhile would be lost.
    #[test]
    fn a_patch_that_writes_a_list_carries_the_version() {
        let push = |c: &mut ConfigMap| {
            c.metadata
                .finalizers
                .get_or_insert_default()
                .push("z".into())
        };
        let locked = json!({
            "metadata": {"finalizers": ["x/y", "z"], "resourceVersion": "7", "uid": "u"},
        });
        assert_eq!(patch_of(OptimisticLock::Lists, push), Some(locked.clone()));
        assert_eq!(patch_of(OptimisticLock::Always, push), Some(locked));
        assert_eq!(
            patch_of(OptimisticLock::Never, push),
            Some(json!({"metadata": {"finalizers": ["x/y", "z"], "uid": "u"}}))
        );
        assert_eq!(
            patch_of(OptimisticLock::Lists, set_b),
            Some(json!({"data": {"b": "2"}, "metadata": {"uid": "u"}}))
        );
        assert_eq!(
            patch_of(OptimisticLock::Always, set_b),
            Some(json!({"data": {"b": "2"}, "metadata": {"resourceVersion": "7", "uid": "u"}}))
        );
    }

    #[test]
    fn a_patch_of_the_status_has_nothing_but_the_status() {
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
        let mode = mode(ChangedPart::Status, OptimisticLock::Lists);
        let (_, patch) = change(&kind, &before, mode, &mut mutate).unwrap();
        let expected = json!({"status": {"readyReplicas": null}});
        assert_eq!(merge(patch), Some(expected));
        let (_, patch) = change(&kind, &before, mode, &mut |_: &mut _| {}).unwrap();
        assert_eq!(patch, None);
    }

    /// CLIENT-3: the uid and the version keep the patch from another object of the same name.
    #[test]
    fn a_patch_of_the_status_carries_uid_and_version() {
        let kind = Kind::of::<Deployment>();
        let mut before = Deployment::default();
        before.metadata.uid = Some("u".into());
        before.metadata.resource_version = Some("7".into());
        let mut mutate = |d: &mut Deployment| d.status.get_or_insert_default().replicas = Some(1);
        for (lock, metadata) in [
            (
                OptimisticLock::Lists,
                json!({"resourceVersion": "7", "uid": "u"}),
            ),
            (OptimisticLock::Never, json!({"uid": "u"})),
        ] {
            let mode = mode(ChangedPart::Status, lock);
            let (_, patch) = change(&kind, &before, mode, &mut mutate).unwrap();
            let expected = json!({"metadata": metadata, "status": {"replicas": 1}});
            assert_eq!(merge(patch), Some(expected));
        }
    }

    #[test]
    fn a_change_that_renames_the_object_is_refused() {
        let kind = Kind::of::<ConfigMap>();
        let mut rename = |c: &mut ConfigMap| c.metadata.name = Some("other".into());
        let mode = mode(ChangedPart::Object, OptimisticLock::Lists);
        let error = change(&kind, &config(), mode, &mut rename).unwrap_err();
        assert!(
            error.to_string().contains("a/c") && error.to_string().contains("a/other"),
            "{error}"
        );
    }

    /// CLIENT-2: a patch that merges a list element by element does not replace the list, so it carries no version.
    #[test]
    fn a_strategic_patch_that_replaces_a_list_carries_the_version() {
        let kind = Kind::of::<ConfigMap>();
        let strategic = PatchMode {
            strategic: true,
            ..mode(ChangedPart::Object, OptimisticLock::Lists)
        };
        let mut push = |c: &mut ConfigMap| {
            let finalizers = c.metadata.finalizers.get_or_insert_default();
            finalizers.push("z".into());
        };
        let (_, patch) = change(&kind, &config(), strategic, &mut push).unwrap();
        let expected = json!({"metadata": {
            "$setElementOrder/finalizers": ["x/y", "z"], "finalizers": ["z"], "uid": "u",
        }});
        assert_eq!(patch, Some(Patch::Strategic(expected)));
        let always = PatchMode {
            lock: OptimisticLock::Always,
            ..strategic
        };
        let Some(Patch::Strategic(patch)) = change(&kind, &config(), always, &mut set_b).unwrap().1
        else {
            panic!("no strategic patch")
        };
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        // The server would take the key `$patch` of a strategic merge patch for a directive, so a merge patch is sent.
        let mut odd = |c: &mut ConfigMap| {
            let data = c.data.get_or_insert_default();
            data.insert("$patch".into(), "delete".into());
        };
        let (_, patch) = change(&kind, &config(), strategic, &mut odd).unwrap();
        assert!(matches!(patch, Some(Patch::Merge(_))), "{patch:?}");
    }
}
