//! Machine: the writes of the simulator: calls of the registry's verbs as the user of the reconciling controller.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::selector::LabelSelector;
use steersman_apimachinery::status::Status;
use steersman_registry::{
    ActRequest, DeleteOptions, ObjectTarget, Preconditions, Registry, Subresource, WriteOptions,
};
use steersman_schema::resource::Resource;
use steersman_schema::subresources::Act;
use steersman_store::Stored;

use super::event_correlator::Recorder;
use crate::options::{PodFailure, Speed};
use crate::state::cluster_facts::ClusterFacts;
use crate::state::facts::{
    self, Component, NamespacedName, SimulatedKey, SimulatedKind, TRACKING, controller_of,
    controller_reference, pseudo_random,
};
use crate::state::kinds::Kinds;
use crate::state::work_queue::WorkQueue;

/// The field manager of the controllers' writes: upstream, all these controllers run in kube-controller-manager.
const CONTROLLERS: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const KUBELET: &str = "kubelet";

/// A write by a controller to the object itself, not to `/status` or another subresource.
pub(crate) const MAIN: (Component, Subresource) = (Component::Controllers, Subresource::Main);

#[derive(Debug, Clone)]
pub(crate) struct PlayerSettings {
    pub(crate) speed: Speed,
    pub(crate) seed: u64,
    /// The failures that tests requested with `fail_pods`, the newest last; the newest that matches a Pod wins.
    pub(crate) failures: Vec<PodFailureRequest>,
}

#[derive(Debug, Clone)]
pub(crate) struct PodFailureRequest {
    pub(crate) id: u64,
    /// The namespace of the Pods that fail; empty for all namespaces.
    pub(crate) namespace: String,
    pub(crate) selector: LabelSelector,
    pub(crate) failure: PodFailure,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnTime {
    /// The server's wall time, which is written into fields such as `lastTransitionTime`.
    pub(crate) wall: Timestamp,
    /// The simulator's own clock, by which delays are measured; it stands still while no task drives the simulator.
    pub(crate) tick: Duration,
}

/// What the simulator remembers between turns and cannot read from the objects in the store.
#[derive(Debug, Default)]
pub(crate) struct PlayerMemory {
    /// The Pods that the simulator made unready for a requested failure: it makes no other Pod ready again (PLAY-1).
    pub(crate) made_unready: HashSet<SimulatedKey>,
    /// The terminating Pods for which the kubelet's `Killing` Events are written, so that no Pod gets them twice.
    pub(crate) stopping: HashSet<SimulatedKey>,
    /// The number of Pod addresses that were assigned so far, from which the next address is computed.
    pub(crate) addresses: u32,
    /// The Pod failures that delay the next Pods of a Job, by the uid of the Job.
    pub(crate) backoffs: HashMap<Arc<str>, JobBackoff>,
    pub(crate) recorder: Recorder,
    /// The name of each bound claim's PersistentVolume, to apply the reclaim policy after the claim is deleted.
    pub(crate) bound: HashMap<NamespacedName, Arc<str>>,
}

/// The number of a Job's Pod failures since the last success, and the simulator's time at the last failure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobBackoff {
    pub(crate) failures: u32,
    pub(crate) last: Duration,
}

/// What a controller reads and writes while it reconciles one object; a turn reconciles several objects.
pub(crate) struct TurnContext<'a> {
    pub(crate) registry: &'a mut Registry,
    pub(crate) cluster: &'a ClusterFacts,
    pub(crate) kinds: &'a Kinds,
    pub(crate) settings: &'a PlayerSettings,
    pub(crate) work_queue: &'a mut WorkQueue,
    pub(crate) timers: &'a mut BTreeSet<(Duration, SimulatedKey)>,
    pub(crate) memory: &'a mut PlayerMemory,
    pub(crate) writes_events: bool,
    /// Whether the simulator binds volumes. If so, the scheduler lets Pods wait until their claims are bound.
    pub(crate) binds_volumes: bool,
    pub(crate) now: TurnTime,
    /// The object to reconcile. Its kind decides which user writes and which controller reports Events.
    pub(crate) key: &'a SimulatedKey,
    pub(crate) writes: usize,
    /// The number of writes at which a reconcile stops and queues its object again: requests need the lock (PLAY-7).
    pub(crate) write_limit: usize,
}

impl TurnContext<'_> {
    pub(crate) fn get(
        &self,
        kind: SimulatedKind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Stored>> {
        let stored = self.stored(self.kinds.of(kind), namespace, name)?;
        Some(match kind {
            // Pods are many, and most do not change: a borrowed Pod loses its decoded form after use (SRV-STORE-7).
            SimulatedKind::Pod => stored.borrowed(),
            _ => stored,
        })
    }

    pub(crate) fn object(&self) -> Option<Arc<Stored>> {
        self.get(self.key.kind, &self.key.namespace, &self.key.name)
    }

    pub(crate) fn stored(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Stored>> {
        let store = self.registry.store();
        store.get(&resource.storage, namespace, name).cloned()
    }

    /// Returns the objects of a resource that name this uid as their controller in `ownerReferences`.
    pub(crate) fn controlled(&self, resource: &Resource, uid: &str) -> Vec<Arc<Stored>> {
        let mut found = self.registry.dependents_in(&resource.storage, uid);
        found.retain(|one| controller_of(one.lean()).is_some_and(|own| *own.uid == *uid));
        found
    }

    pub(crate) fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Arc<Stored>, Status> {
        self.create_as(Component::Controllers, resource, namespace, body)
    }

    /// Like [`create`](Self::create), but with the field manager of this component.
    pub(crate) fn create_as(
        &mut self,
        component: Component,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Arc<Stored>, Status> {
        self.writes += 1;
        let namespace = Some(namespace).filter(|_| resource.namespaced);
        let target = ObjectTarget::collection(resource, namespace);
        let (options, now) = (self.options(component), self.now.wall);
        let written = self.registry.create(target, body, &options, now)?;
        Ok(written.object.stored)
    }

    /// Replaces an object or its status. Returns `None` if the server refused: the object's next change queues it.
    pub(crate) fn update(
        &mut self,
        resource: &Resource,
        (component, subresource): (Component, Subresource),
        object: Value,
    ) -> Option<Arc<Stored>> {
        self.writes += 1;
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let (options, now) = (self.options(component), self.now.wall);
        let target = ObjectTarget::object(resource, namespace.as_deref(), &name).part(subresource);
        let written = self.registry.update(target, object, &options, now);
        written.ok().map(|written| written.object.stored)
    }

    /// Writes the status of the reconciled object, unless the stored one is equal. Returns false if the server refused.
    pub(crate) fn write_status(&mut self, stored: &Stored, status: impl Into<Value>) -> bool {
        self.write_status_as(Component::Controllers, stored, status.into(), None)
    }

    /// Like [`write_status`](Self::write_status), with the field manager of a component, and an annotation to set.
    pub(crate) fn write_status_as(
        &mut self,
        component: Component,
        stored: &Stored,
        status: Value,
        annotation: Option<(&str, &str)>,
    ) -> bool {
        let lean = stored.lean();
        let annotation = annotation.filter(|(key, value)| facts::annotation(lean, key) != *value);
        if annotation.is_none() && lean["status"] == status {
            return true;
        }
        // The request repeats the stored metadata: for most kinds a status write also replaces labels and annotations,
        // so leaving them out would delete them.
        let mut object = json!({
            "apiVersion": lean["apiVersion"],
            "kind": lean["kind"],
            "metadata": lean["metadata"],
        });
        object["status"] = status;
        if let Some((key, value)) = annotation {
            facts::annotations_of(&mut object).insert(key.to_owned(), json!(value));
        }
        let resource = self.kinds.of(self.key.kind);
        let written = self.update(resource, (component, Subresource::Status), object);
        written.is_some()
    }

    pub(crate) fn edit(
        &mut self,
        kind: SimulatedKind,
        stored: &Stored,
        edit: impl FnOnce(&mut Value),
    ) {
        let mut object = stored.lean().clone();
        edit(&mut object);
        if object != *stored.lean() {
            self.update(self.kinds.of(kind), MAIN, object);
        }
    }

    /// Deletes the object with this uid, with a grace period of `grace` seconds. Returns false if the server refused.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        stored: &Stored,
        grace: Option<i64>,
    ) -> bool {
        self.writes += 1;
        let options = DeleteOptions {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(stored.meta("uid").to_owned()),
                resource_version: None,
            }),
            propagation_policy: Some("Background".to_owned()),
            user: Arc::clone(self.kinds.user(self.key.kind)),
            ..DeleteOptions::default()
        };
        let namespace = Some(&*stored.namespace).filter(|_| resource.namespaced);
        let target = ObjectTarget::object(resource, namespace, &stored.name);
        // The reason of a refusal does not matter: usually the object is gone already.
        let deleted = self.registry.delete(target, &options, self.now.wall);
        deleted.is_ok()
    }

    /// Binds a Pod to a node, as the scheduler does. Returns false if the server refused.
    pub(crate) fn bind(&mut self, pod: &Stored, node: &str) -> bool {
        self.writes += 1;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": *pod.name, "namespace": *pod.namespace, "uid": pod.meta("uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let request = ActRequest {
            act: Act::Bind,
            namespace: &pod.namespace,
            name: &pod.name,
            body: &body,
        };
        let options = self.options(Component::Scheduler);
        // The server refuses a Pod that is bound already. That is no error: the Pod has a node.
        self.registry.act(request, &options, self.now.wall).is_ok()
    }

    /// Makes `owner` the controller of an object that has none; if `owner` is a Job, also adds the Job's finalizer.
    pub(crate) fn adopt(&mut self, kind: SimulatedKind, object: &Stored, owner: &Stored) {
        let tracked = owner.lean()["kind"] == "Job";
        let owner = controller_reference(owner);
        self.edit(kind, object, |object| {
            let fields = steersman_registry::metadata_of(object);
            let owners = fields.entry("ownerReferences").or_insert_with(|| json!([]));
            if let Some(owners) = owners.as_array_mut() {
                owners.retain(|one| one["uid"] != owner["uid"]);
                owners.push(owner);
            }
            let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
            if tracked {
                facts::track(finalizers);
            }
        });
    }

    /// Removes the owner reference to `owner` from an object, and, if `owner` is a Job, the Job's finalizer.
    pub(crate) fn disown(&mut self, kind: SimulatedKind, object: &Stored, owner: &Stored) {
        let uid = owner.meta("uid").to_owned();
        let tracked = owner.lean()["kind"] == "Job";
        self.edit(kind, object, |object| {
            let fields = steersman_registry::metadata_of(object);
            let mut without = |field: &str, goes: &dyn Fn(&Value) -> bool| {
                if let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) {
                    list.retain(|one| !goes(one));
                    if list.is_empty() {
                        fields.remove(field);
                    }
                }
            };
            without("ownerReferences", &|one| one["uid"] == *uid);
            if tracked {
                without("finalizers", &|one| one == TRACKING);
            }
        });
    }

    pub(crate) fn is_at_write_limit(&self) -> bool {
        self.writes >= self.write_limit
    }

    /// Returns whether `write_limit` is reached. If so, queues the reconciled object again, for the work that is left.
    pub(crate) fn is_interrupted(&mut self) -> bool {
        let is_interrupted = self.is_at_write_limit();
        if is_interrupted {
            self.requeue();
        }
        is_interrupted
    }

    /// Queues the reconciled object again, behind all objects of its class.
    pub(crate) fn requeue(&mut self) {
        self.work_queue.add(self.key.clone());
    }

    /// Queues the reconciled object again when the simulator's clock reaches `at`.
    pub(crate) fn requeue_at(&mut self, at: Duration) {
        self.timers.insert((at, self.key.clone()));
    }

    pub(crate) fn requeue_after(&mut self, delay: Duration) {
        self.requeue_at(self.now.tick.saturating_add(delay));
    }

    fn options(&self, component: Component) -> WriteOptions {
        let manager = match component {
            Component::Controllers => CONTROLLERS,
            Component::Scheduler => SCHEDULER,
            Component::Kubelet => KUBELET,
        };
        WriteOptions {
            field_manager: Some(manager.to_owned()),
            user: Arc::clone(self.kinds.user(self.key.kind)),
            ..WriteOptions::default()
        }
    }

    pub(crate) fn seconds_since(&self, time: Timestamp) -> i64 {
        self.now.wall.as_second().saturating_sub(time.as_second())
    }

    pub(crate) fn failure(&self, pod: &Stored) -> Option<PodFailure> {
        let own = facts::annotation(pod.lean(), crate::options::POD_FAILURE);
        let mut requests = self.settings.failures.iter().rev();
        let requested = requests.find(|request| {
            (request.namespace.is_empty() || request.namespace == *pod.namespace)
                && request.selector.matches_labels(|key| pod.label(key))
        });
        requested.map_or_else(|| PodFailure::named(own), |request| Some(request.failure))
    }

    pub(crate) fn step_duration(&self, step: &str, time: Duration, pod: &Stored) -> Duration {
        let seed = self.settings.seed.to_string();
        let number = pseudo_random(&[&seed, step, pod.meta("uid")]);
        self.settings.speed.vary(time, number)
    }
}
