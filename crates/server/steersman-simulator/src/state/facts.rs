//! Words: the facts that the simulator remembers of an object, and functions that read fields of objects.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHasher;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_store::Stored;

pub(crate) type NamespacedName = (Arc<str>, Arc<str>);

/// The finalizer that holds a Pod of a Job until the Job has counted it.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The kinds that the simulator reconciles or reads. `WorkQueue` decides about the order of processing.
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

/// Every kind in the order of the enum, with the group and the plural name of its resource, and with the name of the
/// user that writes for its controller. The table is not formatted, so that a row takes one line.
#[rustfmt::skip]
pub(crate) const KINDS: [(SimulatedKind, &str, &str, &str); 13] = [
    (SimulatedKind::Node, "", "nodes", "node-controller"),
    (SimulatedKind::Pod, "", "pods", "kube-scheduler"),
    (SimulatedKind::ReplicaSet, "apps", "replicasets", "replicaset-controller"),
    (SimulatedKind::StatefulSet, "apps", "statefulsets", "statefulset-controller"),
    (SimulatedKind::DaemonSet, "apps", "daemonsets", "daemon-set-controller"),
    (SimulatedKind::Job, "batch", "jobs", "job-controller"),
    (SimulatedKind::CronJob, "batch", "cronjobs", "cronjob-controller"),
    (SimulatedKind::Deployment, "apps", "deployments", "deployment-controller"),
    (SimulatedKind::Service, "", "services", "endpointslice-controller"),
    (SimulatedKind::Claim, "", "persistentvolumeclaims", "persistent-volume-binder"),
    (SimulatedKind::Volume, "", "persistentvolumes", "persistent-volume-binder"),
    (SimulatedKind::Class, "storage.k8s.io", "storageclasses", "persistent-volume-binder"),
    (SimulatedKind::Budget, "policy", "poddisruptionbudgets", "disruption-controller"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    Controllers,
    Scheduler,
    Kubelet,
}

/// The key of an object that the simulator has to process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SimulatedKey {
    pub(crate) kind: SimulatedKind,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// The controller in the owner references of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controller {
    /// The kind of the controller; `None` for a kind that the simulator does not handle.
    pub(crate) kind: Option<SimulatedKind>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PodStage {
    /// The Pod is not bound to a node.
    Unscheduled,
    /// The Pod is bound to a node, and does not run.
    Scheduled,
    /// The Pod runs, ready or not.
    Running,
    /// The Pod succeeded or failed.
    Finished,
    /// The Pod has a deletion timestamp.
    Terminating,
}

#[derive(Debug, Clone)]
pub(crate) struct PodFacts {
    pub(crate) controller: Option<Controller>,
    pub(crate) stage: PodStage,
    /// The time on the simulator's clock at which it first saw the Pod at this stage.
    pub(crate) since: Duration,
    pub(crate) ready: bool,
    /// The time on the simulator's clock at which it first saw the Pod ready.
    pub(crate) ready_at: Duration,
    pub(crate) node: Arc<str>,
    /// Whether the Pod is owned by a Job that has not counted the Pod yet.
    pub(crate) tracked: bool,
    /// The value of the Pod's annotation `pod-deletion-cost`.
    pub(crate) cost: i32,
}

/// The numbers of Pods of one controller, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PodTally {
    /// The number of Pods that are neither finished nor terminating.
    pub(crate) active: i64,
    /// The number of active Pods that are ready.
    pub(crate) ready: i64,
    /// The number of Pods that terminate and are not finished.
    pub(crate) terminating: i64,
}

impl SimulatedKind {
    /// Returns the name of the component that reports the Events of the kind's controller.
    pub(crate) fn component(self) -> &'static str {
        match self {
            Self::DaemonSet => "daemonset-controller",
            Self::Claim | Self::Volume => "persistentvolume-controller",
            other => KINDS[other as usize].3,
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

    /// Returns the smallest key of a kind in a namespace, for searches in sorted sets.
    pub(crate) fn first(kind: SimulatedKind, namespace: &str) -> Self {
        Self::new(kind, &namespace.into(), &"".into())
    }

    pub(crate) fn namespaced_name(&self) -> NamespacedName {
        (Arc::clone(&self.namespace), Arc::clone(&self.name))
    }
}

impl Controller {
    /// Returns the key of the controller in a namespace; `None` if the simulator does not handle its kind.
    pub(super) fn key(&self, namespace: &Arc<str>) -> Option<SimulatedKey> {
        Some(SimulatedKey::new(self.kind?, namespace, &self.name))
    }
}

impl PodFacts {
    /// Returns the amounts that the Pod adds to the numbers of its controller.
    pub(crate) fn tally(&self) -> PodTally {
        let active = !matches!(self.stage, PodStage::Finished | PodStage::Terminating);
        PodTally {
            active: i64::from(active),
            ready: i64::from(active && self.ready),
            terminating: i64::from(self.stage == PodStage::Terminating),
        }
    }

    /// Returns the uid of the controller that still has to process the Pod.
    pub(crate) fn belongs(&self) -> Option<&Arc<str>> {
        let open = self.tracked || self.stage != PodStage::Finished;
        let controller = self.controller.as_ref().filter(|_| open);
        controller.map(|controller| &controller.uid)
    }
}

impl PodTally {
    /// Adds the numbers of another tally, multiplied by `times`.
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
    let version = text(owner, "apiVersion").split_once('/');
    let (group, _) = version.unwrap_or_default();
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
    } else if matches!(phase, "Succeeded" | "Failed") {
        PodStage::Finished
    } else if text(&pod["spec"], "nodeName").is_empty() {
        PodStage::Unscheduled
    } else if phase == "Running" {
        PodStage::Running
    } else {
        PodStage::Scheduled
    }
}

pub(crate) fn is_tracked(pod: &Value) -> bool {
    items(&pod["metadata"]["finalizers"]).any(|one| one == TRACKING)
}

/// Adds the finalizer [`TRACKING`] to a list of finalizers.
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

/// Returns the transition time of the condition `known`, or `now` if there is no such condition.
pub(crate) fn transition_time(known: Option<&Value>, now: &str) -> Value {
    known.map_or_else(|| json!(now), |known| known["lastTransitionTime"].clone())
}

/// Iterates over the items of a list; none if the value is no list.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns a copy of the items of a list; none if the value is no list.
pub(crate) fn cloned_items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

/// Writes the counts that are above zero into a status, each under its field name.
pub(crate) fn put_counts(status: &mut Value, counts: &[(&str, i64)]) {
    for (field, count) in counts.iter().filter(|(_, count)| *count > 0) {
        status[*field] = json!(count);
    }
}

pub(crate) fn is_terminating(stored: &Stored) -> bool {
    !stored.meta("deletionTimestamp").is_empty()
}

pub(crate) fn name_of(stored: &Stored) -> NamespacedName {
    (Arc::clone(&stored.namespace), Arc::clone(&stored.name))
}

/// Converts a length to `i64`, the type of numbers in objects.
pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Returns a member of an object as text; empty if it is absent or no text.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns a label of an object or of a template; empty if it is absent.
pub(crate) fn label<'a>(object: &'a Value, label: &str) -> &'a str {
    text(&object["metadata"]["labels"], label)
}

/// Returns an annotation of an object; empty if it is absent.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    text(&object["metadata"]["annotations"], name)
}

pub(crate) fn annotations_of(object: &mut Value) -> &mut Map<String, Value> {
    let fields = steersman_registry::metadata_of(object);
    let annotations = fields.entry("annotations").or_insert_with(|| json!({}));
    steersman_registry::members_of(annotations)
}

/// Returns a number, or `default` if the value is no number.
pub(crate) fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

/// Parses a time in an object; `None` if it is absent or does not parse.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Builds a reference to an object in its stored version.
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

/// Builds an owner reference that names `owner` as the controller.
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

/// Returns a number, or a percentage of `total`, rounded up or down; at least zero.
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

/// Returns the `maxUnavailable` of a rolling update for `total` Pods; at least 1, which is the default.
pub(crate) fn max_unavailable(rolling_update: &Value, total: i64) -> i64 {
    scaled_value(&rolling_update["maxUnavailable"], total, true).max(1)
}

/// Returns a pseudo-random number for these texts (FNV-1a with a final mix).
pub(crate) fn pseudo_random(texts: &[&str]) -> u64 {
    let mut hasher = FnvHasher::default();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0);
    }
    // The low bits of FNV depend little on the last characters, so all bits are mixed again.
    let mut mixed = hasher.finish();
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// Returns the hash of a Pod template. As in Kubernetes, it changes only with the template and the number of
/// collisions.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let number = pseudo_random(&[&template.to_string(), &collisions.to_string()]) & 0xffff_ffff;
    let digits = number.to_string();
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    digits.bytes().map(letter).collect()
}
