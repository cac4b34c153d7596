//! Machine: the start of a deletion: sets `deletionTimestamp`, grace period and finalizers, and decides whether the
//! object stays until these are over or removed.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_schema::resource::Resource;
use steersman_schema::types;

use crate::requests::intake::is_definition;
use crate::requests::metadata;
use crate::state::pending_work::{FOREGROUND, ORPHAN, PropagationPolicy};
use crate::state::registry::Registry;
use crate::values::{items, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionStart {
    /// The object stays, with a `deletionTimestamp`, until its finalizers are removed and its grace period ends.
    Waits,
    /// The object is removed after one more write, which stores its grace period of 0 seconds, so that watches get it.
    GoesMarked,
    /// The object is removed without a write before: changes of its finalizers by the propagation policy are not
    /// stored.
    Goes,
}

/// Returns the JSON that Go prints for an object of the resource with only `kind` and `apiVersion` set.
pub(crate) fn empty(resource: &Resource) -> Value {
    let (version, kind) = (resource.api_version(), &resource.kind);
    if !resource.built_in {
        return json!({ "apiVersion": version, "kind": kind });
    }
    let mut empty = json!({ "apiVersion": version, "kind": kind, "metadata": {} });
    // Decoding adds the fields that Go prints even without a value. It cannot fail for an empty object.
    let _ = types::decode(&version, kind, &mut empty);
    empty
}

/// Sets the fields of a deletion in an object, such as `deletionTimestamp`, and returns how the deletion goes on.
/// Upstream: `rest.BeforeDelete`, the strategy of Pods (the only kind with a grace period), and the rules of namespaces
/// and CRDs.
pub(crate) fn begun(
    resource: &Resource,
    value: &mut Value,
    (grace, policy): (Option<i64>, Option<PropagationPolicy>),
    now: Timestamp,
) -> DeletionStart {
    if is_namespace(resource) && begun_namespace(value, policy, now) {
        return DeletionStart::Waits;
    }
    let fields = &value["metadata"];
    let terminating = fields["deletionTimestamp"].is_string();
    if is_definition(resource) && !terminating {
        Registry::terminate_definition(value, now);
        return DeletionStart::Waits;
    }
    let left = fields["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    // As upstream, a negative grace period counts as one second.
    let grace = grace.map(|asked| if asked < 0 { 1 } else { asked });
    // The grace period, in seconds, that this delete sets; `None` without a new grace period.
    let mut given = None;
    match grace {
        Some(asked) if terminating && asked < left => {
            let due: Timestamp = text(&fields["deletionTimestamp"]).parse().unwrap_or(now);
            let earlier = due.saturating_sub(SignedDuration::from_secs(left - asked));
            given = Some(asked);
            let fields = metadata::of(value);
            let due = metadata::time(earlier.unwrap_or(now));
            fields.insert("deletionTimestamp".to_owned(), json!(due));
            fields.insert("deletionGracePeriodSeconds".to_owned(), json!(asked));
        }
        // A second delete during the grace period that does not shorten it changes nothing, not even finalizers.
        _ if terminating && left > 0 => return DeletionStart::Waits,
        _ if !terminating && has_grace(resource) => {
            let seconds = grace_of(value, grace);
            mark(value, seconds, now);
            given = Some(seconds);
        }
        _ => {}
    }
    set_policy(value, policy);
    if !has_finalizers(value) {
        return match given {
            None => DeletionStart::Goes,
            Some(0) => DeletionStart::GoesMarked,
            Some(_) => DeletionStart::Waits,
        };
    }
    if !terminating && !has_grace(resource) {
        mark(value, 0, now);
    }
    let fields = metadata::of(value);
    fields
        .entry("deletionGracePeriodSeconds")
        .or_insert(json!(0));
    DeletionStart::Waits
}

/// Marks a namespace as deleted. Returns whether it stays because it was just marked or has `spec.finalizers`; if not,
/// the common rules of deletion apply.
fn begun_namespace(
    namespace: &mut Value,
    policy: Option<PropagationPolicy>,
    now: Timestamp,
) -> bool {
    if namespace["metadata"]["deletionTimestamp"].is_string() {
        return !items(&namespace["spec"]["finalizers"]).is_empty();
    }
    let time = Value::String(metadata::time(now));
    metadata::of(namespace).insert("deletionTimestamp".to_owned(), time);
    let status = metadata::members(&mut namespace["status"]);
    status.insert("phase".to_owned(), json!("Terminating"));
    set_policy(namespace, policy);
    true
}

/// Sets the finalizer of a propagation policy (`orphan` or `foregroundDeletion`), and removes the finalizer of another
/// policy. Other finalizers keep their order.
fn set_policy(value: &mut Value, policy: Option<PropagationPolicy>) {
    let Some(policy) = policy else { return };
    let wanted = match policy {
        PropagationPolicy::Orphan => Some(ORPHAN),
        PropagationPolicy::Foreground => Some(FOREGROUND),
        PropagationPolicy::Background => None,
    };
    let fields = metadata::of(value);
    let Some(list) = metadata::list_in(fields, "finalizers") else {
        return;
    };
    let said = |one: &Value| one == ORPHAN || one == FOREGROUND;
    let mut all = list.iter();
    let differs = all.any(|one| said(one) && Some(one.as_str()) != Some(wanted));
    let missing = wanted.is_some_and(|wanted| !list.iter().any(|one| one == wanted));
    if differs || missing {
        list.retain(|one| !said(one));
        list.extend(wanted.map(Value::from));
    }
    if list.is_empty() {
        fields.remove("finalizers");
    }
}

pub(crate) fn is_namespace(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "Namespace"
}

/// Returns the finalizer that protects an object of a storage kind while it is used (upstream: the admission plugin
/// `StorageObjectInUseProtection`); `None` for other kinds.
pub(crate) fn protection(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "PersistentVolumeClaim") => Some("kubernetes.io/pvc-protection"),
        ("", "PersistentVolume") => Some("kubernetes.io/pv-protection"),
        ("storage.k8s.io", "VolumeAttributesClass") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

/// Removes the finalizer that protects an object while it is used. In a cluster, a controller does this once the object
/// is no longer used; here, the delete does this.
pub(crate) fn unprotect(resource: &Resource, object: &mut Value) {
    let finalizer = protection(resource).unwrap_or_default();
    metadata::retain_items(object, "finalizers", |one| one != finalizer);
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    !items(&object["metadata"]["finalizers"]).is_empty()
}

/// Returns whether an object has a `deletionTimestamp`, and no finalizer or grace period keeps it. An update to this
/// state is not stored; instead the object is removed in its stored state (SRV-REG-5).
///
/// Upstream: `ShouldDeleteDuringUpdate` of `generic/registry/store.go`, and `ShouldDeleteNamespaceDuringUpdate`.
pub(crate) fn may_go(object: &Value) -> bool {
    let fields = &object["metadata"];
    let left = fields["deletionGracePeriodSeconds"].as_i64();
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    !fields["deletionTimestamp"].is_null()
        && !has_finalizers(object)
        && left.unwrap_or_default() == 0
        && (!is_namespace || items(&object["spec"]["finalizers"]).is_empty())
}

/// Sets `deletionTimestamp` and the grace period (in seconds) of an object, and raises its generation if it has one.
fn mark(object: &mut Value, grace: i64, now: Timestamp) {
    let due = now.saturating_add(SignedDuration::from_secs(grace));
    let due = due.unwrap_or(now);
    let fields = metadata::of(object);
    fields
        .entry("deletionTimestamp")
        .or_insert_with(|| Value::String(metadata::time(due)));
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    let generation = fields.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation.filter(|generation| *generation > 0) {
        fields.insert("generation".to_owned(), json!(generation.saturating_add(1)));
    }
}

fn has_grace(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "Pod"
}

/// Returns the grace period for the deletion of a Pod, in seconds; 0 for a Pod that has no node or has ended.
fn grace_of(pod: &Value, asked: Option<i64>) -> i64 {
    let node = text(&pod["spec"]["nodeName"]);
    let phase = text(&pod["status"]["phase"]);
    if node.is_empty() || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    match asked.or(own).unwrap_or(30) {
        seconds if seconds < 0 => 1,
        // Longer grace periods are cut, so that the end of the grace period is a valid date.
        seconds => seconds.min(1_000_000_000),
    }
}
