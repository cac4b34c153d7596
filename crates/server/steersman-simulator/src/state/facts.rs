//! Words: what the simulator remembers of an object, and functions that read fields of objects.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHasher;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_apimachinery::selector::{LabelSelector, selector_text};
use steersman_store::Stored;

pub(crate) type NamespacedName = (Arc<str>, Arc<str>);

/// The finalizer that keeps a deleted Pod of a Job in the store until the Job has counted it.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The kinds that the simulator reconciles or reads. `class_of` in `work_queue.rs` decides which are reconciled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SimulatedKind {
    Node,
    Pod,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Deployment,
    Service,
    Claim,
    Volume,
    Class,
    Budget,
}

/// The names of one kind's resource and of its controller's ServiceAccount: a row of [`KINDS`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindRow {
    pub(crate) kind: SimulatedKind,
    /// The API group of the resource; empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    /// The name of the ServiceAccount that writes for the controller of the kind.
    pub(crate) user: &'static str,
}

const fn row(
    kind: SimulatedKind,
    group: &'static str,
    plural: &'static str,
    user: &'static str,
) -> KindRow {
    KindRow {
        kind,
        group,
        plural,
        user,
    }
}

/// Every kind, in the order of the enum. The table is not formatted by rustfmt, so that a row takes one line.
#[rustfmt::skip]
pub(crate) const KINDS: [KindRow; 13] = [
    row(SimulatedKind::Node, "", "nodes", "node-controller"),
    row(SimulatedKind::Pod, "", "pods", "kube-scheduler"),
    row(SimulatedKind::ReplicaSet, "apps", "replicasets", "replicaset-controller"),
    row(SimulatedKind::StatefulSet, "apps", "statefulsets", "statefulset-controller"),
    row(SimulatedKind::DaemonSet, "apps", "daemonsets", "daemon-set-controller"),
    row(SimulatedKind::Job, "batch", "jobs", "job-controller"),
    row(SimulatedKind::CronJob, "batch", "cronjobs", "cronjob-controller"),
    row(SimulatedKind::Deployment, "apps", "deployments", "deployment-controller"),
    row(SimulatedKind::Service, "", "services", "endpointslice-controller"),
    row(SimulatedKind::Claim, "", "persistentvolumeclaims", "persistent-volume-binder"),
    row(SimulatedKind::Volume, "", "persistentvolumes", "persistent-volume-binder"),
    row(SimulatedKind::Class, "storage.k8s.io", "storageclasses", "persistent-volume-binder"),
    row(SimulatedKind::Budget, "policy", "poddisruptionbudgets", "disruption-controller"),
];

// Checked at compile time: the row of each kind is `KINDS[kind as usize]`, on which lookups rely.
const _: () = {
    let mut at = 0;
    while at < KINDS.len() {
        assert!(KINDS[at].kind as usize == at);
        at += 1;
    }
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    Controllers,
    Scheduler,
    Kubelet,
}

/// The key of an object in the queue: its kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SimulatedKey {
    pub(crate) kind: SimulatedKind,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// The owner reference with `controller: true` of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controller {
    /// The kind of the controller; `None` for a kind that the simulator does not know.
    pub(crate) kind: Option<SimulatedKind>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PodStage {
    Unscheduled,
    /// The Pod is bound to a node, but its containers have not started.
    Scheduled,
    /// The phase of the Pod is `Running`, whether it is ready or not.
    Running,
    /// The phase of the Pod is `Succeeded` or `Failed`.
    Finished,
    /// The Pod has a deletion timestamp, whatever its phase.
    Terminating,
}

#[derive(Debug, Clone)]
pub(crate) struct PodFacts {
    pub(crate) controller: Option<Controller>,
    pub(crate) stage: PodStage,
    /// Whether the phase of the Pod is `Succeeded` or `Failed`, also if the Pod is terminating.
    pub(crate) has_ended: bool,
    /// The time on the simulator's clock at which the Pod was first seen at this stage.
    pub(crate) since: Duration,
    pub(crate) ready: bool,
    /// The time on the simulator's clock since which the Pod has been seen ready; without meaning if it is not ready.
    pub(crate) ready_at: Duration,
    pub(crate) node: Arc<str>,
    /// Whether the Pod has the finalizer `TRACKING`: its Job has not counted it yet.
    pub(crate) tracked: bool,
    /// The value of the Pod's annotation `controller.kubernetes.io/pod-deletion-cost`; 0 without this annotation.
    pub(crate) cost: i32,
}

/// How many Pods of one controller are active, ready or terminating.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PodTally {
    /// The number of Pods that are neither finished nor terminating.
    pub(crate) active: i64,
    /// The number of active Pods that are also ready.
    pub(crate) ready: i64,
    /// The number of Pods that are terminating and have not ended (upstream's `IsPodTerminating`).
    pub(crate) terminating: i64,
}

impl SimulatedKind {
    /// Returns the name under which this kind's controller reports Events (`source.component`).
    pub(crate) fn component(self) -> &'static str {
        match self {
            Self::DaemonSet => "daemonset-controller",
            Self::Claim | Self::Volume => "persistentvolume-controller",
            other => KINDS[other as usize].user,
        }
    }

    fn named(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            ("apps", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            ("apps", "DaemonSet") => Some(Self::DaemonSet),
            ("apps", "Deployment") => Some(Self::Deployment),
            ("batch", "Job") => Some(Self::Job),
            ("batch", "CronJob") => Some(Self::CronJob),
            _ => None,
        }
    }
}

impl PodStage {
    /// Returns whether a Pod at this stage is neither finished nor terminating.
    pub(crate) fn is_active(self) -> bool {
        !matches!(self, Self::Finished | Self::Terminating)
    }
}

impl SimulatedKey {
    pub(crate) fn new(kind: SimulatedKind, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self {
            kind,
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
        }
    }

    pub(crate) fn of(kind: SimulatedKind, stored: &Stored) -> Self {
        Self::new(kind, &stored.namespace, &stored.name)
    }

    /// Returns a key that sorts before all keys of a kind in a namespace, as the start of a search.
    pub(crate) fn first(kind: SimulatedKind, namespace: &str) -> Self {
        Self::new(kind, &namespace.into(), &"".into())
    }

    pub(crate) fn namespaced_name(&self) -> NamespacedName {
        (Arc::clone(&self.namespace), Arc::clone(&self.name))
    }
}

impl Controller {
    /// Returns the queue key of the owner that this reference names, in the `namespace` of the owned object; `None` if
    /// the simulator does not know the kind of the owner.
    pub(super) fn key(&self, namespace: &Arc<str>) -> Option<SimulatedKey> {
        Some(SimulatedKey::new(self.kind?, namespace, &self.name))
    }
}

impl PodFacts {
    /// Returns how this Pod counts for its controller: 0 or 1 in each number.
    pub(crate) fn tally(&self) -> PodTally {
        let active = self.stage.is_active();
        PodTally {
            active: i64::from(active),
            ready: i64::from(active && self.ready),
            terminating: i64::from(self.stage == PodStage::Terminating && !self.has_ended),
        }
    }

    /// Returns the controller's uid if the Pod is not finished, or if it is finished and its Job has not counted it.
    pub(crate) fn belongs(&self) -> Option<&Arc<str>> {
        let open = self.tracked || self.stage != PodStage::Finished;
        let controller = self.controller.as_ref().filter(|_| open);
        controller.map(|controller| &controller.uid)
    }
}

impl PodTally {
    /// Adds the numbers of another tally, multiplied by `times`: 1 adds a Pod, and -1 removes it.
    pub(crate) fn add(&mut self, other: Self, times: i64) {
        self.active += times * other.active;
        self.ready += times * other.ready;
        self.terminating += times * other.terminating;
    }
}

pub(crate) fn controlling_owner(object: &Value) -> Option<&Value> {
    let mut owners = items(&object["metadata"]["ownerReferences"]);
    owners.find(|owner| owner["controller"] == true)
}

pub(crate) fn controller_of(object: &Value) -> Option<Controller> {
    let owner = controlling_owner(object)?;
    let (group, _) = text(owner, "apiVersion")
        .split_once('/')
        .unwrap_or_default();
    Some(Controller {
        kind: SimulatedKind::named(group, text(owner, "kind")),
        name: text(owner, "name").into(),
        uid: text(owner, "uid").into(),
    })
}

pub(crate) fn stage_of(pod: &Value) -> PodStage {
    let phase = text(&pod["status"], "phase");
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        PodStage::Terminating
    } else if has_ended(pod) {
        PodStage::Finished
    } else if text(&pod["spec"], "nodeName").is_empty() {
        PodStage::Unscheduled
    } else if phase == "Running" {
        PodStage::Running
    } else {
        PodStage::Scheduled
    }
}

pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
}

pub(crate) fn is_tracked(pod: &Value) -> bool {
    items(&pod["metadata"]["finalizers"]).any(|one| one == TRACKING)
}

/// Adds the finalizer [`TRACKING`] to a list of finalizers, unless the list has it.
pub(crate) fn track(finalizers: &mut Value) {
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|one| one == TRACKING)
    {
        list.push(json!(TRACKING));
    }
}

pub(crate) fn is_condition_true(object: &Value, condition: &str) -> bool {
    items(&object["status"]["conditions"])
        .any(|one| one["type"] == condition && one["status"] == "True")
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"]).find(|one| one["type"] == kind)
}

/// Returns the transition time of the old condition `known`; without an old condition, the time that `now` returns.
pub(crate) fn transition_time(known: Option<&Value>, now: impl FnOnce() -> String) -> Value {
    known.map_or_else(|| json!(now()), |known| known["lastTransitionTime"].clone())
}

/// Returns the items of a JSON list; no items for a JSON value of another type.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns copies of the items of a JSON list; no items for a JSON value of another type.
pub(crate) fn cloned_items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

/// Writes the counts that are not zero into a status, each into the field with its name; upstream omits zeros.
pub(crate) fn put_counts(status: &mut Value, counts: &[(&str, i64)]) {
    for (field, count) in counts.iter().filter(|(_, count)| *count > 0) {
        status[*field] = json!(count);
    }
}

pub(crate) fn name_of(stored: &Stored) -> NamespacedName {
    (Arc::clone(&stored.namespace), Arc::clone(&stored.name))
}

/// Converts a length to `i64`, the type of numbers in objects.
pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Returns a string member of a JSON object; empty if it is absent or no string.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns a label in the metadata of an object or a template; empty if it is absent.
pub(crate) fn label<'a>(object: &'a Value, label: &str) -> &'a str {
    text(&object["metadata"]["labels"], label)
}

/// Returns an annotation in the metadata of an object or a template; empty if it is absent.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    text(&object["metadata"]["annotations"], name)
}

pub(crate) fn annotations_of(object: &mut Value) -> &mut Map<String, Value> {
    let fields = steersman_registry::metadata_of(object);
    let annotations = fields.entry("annotations").or_insert_with(|| json!({}));
    steersman_registry::members_of(annotations)
}

/// Parses a label selector of an object; `None` for an absent or invalid selector.
pub(crate) fn label_selector(selector: &Value) -> Option<LabelSelector> {
    if !selector.is_object() {
        return None;
    }
    LabelSelector::parse(&selector_text(selector)).ok()
}

/// Returns a JSON number as an integer; `default` for a JSON value that is no integer.
pub(crate) fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

/// Parses a time in a field of an object; `None` if the field is absent or does not parse.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Builds the reference to an object that Events and statuses contain (`ObjectReference`).
pub(crate) fn object_reference(object: &Stored) -> Value {
    json!({
        "apiVersion": object.lean()["apiVersion"],
        "kind": object.lean()["kind"],
        "namespace": *object.namespace,
        "name": *object.name,
        "uid": object.meta("uid"),
        "resourceVersion": object.revision.to_string(),
    })
}

/// Builds the owner reference that makes `owner` the controller of an object.
pub(crate) fn controller_reference(owner: &Stored) -> Value {
    json!({
        "apiVersion": owner.lean()["apiVersion"],
        "kind": owner.lean()["kind"],
        "name": *owner.name,
        "uid": owner.meta("uid"),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the number that an `IntOrString` means: its integer, or its percentage of `total`, rounded up if `up` and
/// down otherwise. A negative or invalid value counts as 0.
pub(crate) fn scaled_value(value: &Value, total: i64, up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number.max(0);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let percent: i64 = percent.and_then(|text| text.parse().ok()).unwrap_or(0);
    let hundredths = percent.max(0).saturating_mul(total.max(0));
    if up {
        hundredths.saturating_add(99) / 100
    } else {
        hundredths / 100
    }
}

/// Returns the `maxUnavailable` of a rolling update of `total` Pods; at least 1, which is also the default.
pub(crate) fn max_unavailable(rolling_update: &Value, total: i64) -> i64 {
    scaled_value(&rolling_update["maxUnavailable"], total, true).max(1)
}

/// Returns a number that depends only on these texts, evenly distributed (FNV-1a with a final mix).
pub(crate) fn pseudo_random(texts: &[&str]) -> u64 {
    let mut hasher = FnvHasher::default();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0);
    }
    // In FNV-1a the last characters change only some of the bits, so the bits are mixed (as in MurmurHash3).
    let mut mixed = hasher.finish();
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// Returns the hash of a Pod template for the names of ReplicaSets and revisions. As in Kubernetes, it depends on
/// nothing but the template and the collision count.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let number = pseudo_random(&[&template.to_string(), &collisions.to_string()]) & 0xffff_ffff;
    let digits = number.to_string();
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    digits.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(pod: &Value) -> (i64, i64, i64) {
        let facts = PodFacts {
            controller: None,
            stage: stage_of(pod),
            has_ended: has_ended(pod),
            since: Duration::ZERO,
            ready: is_condition_true(pod, "Ready"),
            ready_at: Duration::ZERO,
            node: "".into(),
            tracked: false,
            cost: 0,
        };
        let PodTally {
            active,
            ready,
            terminating,
        } = facts.tally();
        (active, ready, terminating)
    }

    /// As in kube-controller-manager, a Deployment that recreates its Pods waits for those that still run.
    #[test]
    fn a_terminating_pod_that_has_ended_counts_no_longer() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (metadata, phase, expected) in [
            (json!({}), "Running", (1, 1, 0)),
            (json!({}), "Failed", (0, 0, 0)),
            (deleted.clone(), "Running", (0, 0, 1)),
            (deleted.clone(), "Succeeded", (0, 0, 0)),
            (deleted, "Failed", (0, 0, 0)),
        ] {
            let pod = json!({
                "metadata": metadata,
                "spec": {"nodeName": "a"},
                "status": {"phase": phase, "conditions": ready},
            });
            assert_eq!(tally(&pod), expected, "{pod}");
        }
    }
}
