//! Machine: what the simulator remembers of a cluster, kept up to date from the changes of the store, and which objects
//! must be processed after a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_apimachinery::selector::LabelSelector;
use steersman_registry::Registry;
use steersman_store::Stored;

use super::facts::{
    Controller, KINDS, NamespacedName, PodFacts, PodStage, PodTally, SimulatedKey, SimulatedKind,
    annotation, controller_of, has_ended, is_condition_true, is_tracked, label_selector, name_of,
    stage_of, text,
};
use super::kinds::Kinds;
use super::nodes::NodeFacts;
use super::work_queue::WorkQueue;

/// What the simulator remembers of Pods, Nodes and Services, as of the last change that it has read.
#[derive(Debug, Default)]
pub(crate) struct ClusterFacts {
    pub(crate) pods: HashMap<NamespacedName, PodFacts>,
    pub(crate) nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// The number of Pods per node name, also for names without a Node object.
    pub(crate) pods_per_node: HashMap<Arc<str>, i64>,
    /// The numbers of active, ready and terminating Pods, by the uid of their controller.
    tallies: HashMap<Arc<str>, PodTally>,
    /// The unfinished Pods, and the finished Pods that their Job has not counted, by the uid of their controller.
    own: HashMap<Arc<str>, BTreeSet<NamespacedName>>,
    set_controllers: HashMap<NamespacedName, Controller>,
    /// The Services, to find those with a selector that matches a Pod.
    services: BTreeMap<NamespacedName, Arc<Stored>>,
    /// The selectors of the PodDisruptionBudgets; `None` is an absent or invalid selector, which matches no Pod.
    pub(crate) budgets: BTreeMap<NamespacedName, Option<LabelSelector>>,
    unscheduled: BTreeSet<NamespacedName>,
    /// The Pods and ReplicaSets without a controller, which a controller may adopt.
    orphans: BTreeSet<SimulatedKey>,
    /// The keys of all objects in the store when it was last read, to find the objects that were deleted since.
    seen: BTreeSet<SimulatedKey>,
    /// The revision up to which the changes of each kind are read; `None` for a kind that was never read.
    positions: [Option<u64>; KINDS.len()],
}

/// One reading of the store's changes: updates `facts`, and queues the objects that the changes affect.
pub(crate) struct FactsUpdate<'a> {
    pub(crate) facts: &'a mut ClusterFacts,
    pub(crate) work_queue: &'a mut WorkQueue,
    pub(crate) registry: &'a Registry,
    pub(crate) kinds: &'a Kinds,
    /// The time on the simulator's clock, from which the duration of a Pod's stage is measured.
    pub(crate) tick: Duration,
}

impl ClusterFacts {
    pub(crate) fn tally(&self, uid: &str) -> PodTally {
        self.tallies.get(uid).copied().unwrap_or_default()
    }

    /// Returns the Pods of the controller with this uid that are not finished or not counted, sorted by name.
    pub(crate) fn own(&self, uid: &str) -> impl Iterator<Item = (&NamespacedName, &PodFacts)> {
        let all = self.own.get(uid).into_iter().flatten();
        all.filter_map(|name| Some((name, self.pods.get(name)?)))
    }

    /// Returns the keys of the Pods or ReplicaSets in a namespace that have no controller.
    pub(crate) fn orphans(&self, kind: SimulatedKind, namespace: &Arc<str>) -> Vec<SimulatedKey> {
        keys_of(&self.orphans, kind, Some(namespace))
            .cloned()
            .collect()
    }

    /// Adds a Pod to the tallies of its controller and node and to `unscheduled`; removes it if `is_added` is false.
    fn count_pod(&mut self, name: &NamespacedName, facts: &PodFacts, is_added: bool) {
        let times = if is_added { 1 } else { -1 };
        if let Some(controller) = &facts.controller {
            let tally = self.tallies.entry(Arc::clone(&controller.uid)).or_default();
            tally.add(facts.tally(), times);
            if *tally == PodTally::default() {
                self.tallies.remove(&controller.uid);
            }
        }
        if facts.stage == PodStage::Unscheduled {
            set_member(&mut self.unscheduled, name, is_added);
        }
        if facts.stage != PodStage::Finished && !facts.node.is_empty() {
            let node = Arc::clone(&facts.node);
            let pod_count = self.pods_per_node.entry(node).or_default();
            *pod_count += times;
            if *pod_count == 0 {
                self.pods_per_node.remove(&facts.node);
            }
        }
    }

    /// Adds a Pod to the set of Pods of its controller, or removes it if `is_added` is false.
    fn index_owned_pod(
        &mut self,
        name: &NamespacedName,
        controller: Option<&Arc<str>>,
        is_added: bool,
    ) {
        let Some(uid) = controller else {
            return;
        };
        let own = self.own.entry(Arc::clone(uid)).or_default();
        set_member(own, name, is_added);
        if own.is_empty() {
            self.own.remove(uid);
        }
    }
}

impl FactsUpdate<'_> {
    /// Reads the changes since the last call, or all objects if the store has forgotten some changes (PLAY-3).
    pub(crate) fn read_changes(&mut self) {
        for (at, row) in KINDS.into_iter().enumerate() {
            let kind = row.kind;
            let (registry, storage) = (self.registry, &self.kinds.of(kind).storage);
            let changes = self.facts.positions[at]
                .and_then(|after| registry.store().changes(storage, after).ok());
            if let Some(changes) = changes {
                for change in changes {
                    if change.deleted {
                        self.forget(kind, &change.new);
                        continue;
                    }
                    if let Some(old) = &change.old {
                        self.observe_old(kind, &change.new, old);
                    }
                    // An object is processed in its newest state, so a state that a later change replaced is skipped.
                    let (namespace, name) = (&change.new.namespace, &change.new.name);
                    let newest = registry.store().get(storage, namespace, name);
                    if let Some(new) = newest.filter(|new| new.revision == change.revision) {
                        self.observe(kind, new);
                    } else if kind == SimulatedKind::ReplicaSet {
                        // The controller in this skipped state may have lost the ReplicaSet, and may adopt it again.
                        let controller = controller_of(&change.new.look());
                        self.queue_controller(controller.as_ref(), namespace);
                    }
                }
            } else {
                self.relist(kind);
            }
            self.facts.positions[at] = Some(registry.revision());
        }
    }

    /// Reads all objects of a kind, because changes were missed (PLAY-3): queues them, and forgets deleted ones.
    fn relist(&mut self, kind: SimulatedKind) {
        let (registry, storage) = (self.registry, &self.kinds.of(kind).storage);
        let known = keys_of(&self.facts.seen, kind, None);
        let is_gone = |key: &&SimulatedKey| {
            let stored = registry.store().get(storage, &key.namespace, &key.name);
            stored.is_none()
        };
        let gone: Vec<SimulatedKey> = known.filter(is_gone).cloned().collect();
        for key in gone {
            let gone = Stored::new(key.namespace, key.name, Value::Null, 0);
            self.forget(kind, &gone);
        }
        for stored in registry.store().list(storage, None) {
            self.observe(kind, stored);
            if kind == SimulatedKind::Pod {
                // The labels may have changed in a change that was missed, so the controller checks its selector again.
                let controller = controller_of(&stored.look());
                self.add_release_candidate(controller.as_ref(), stored);
            }
        }
    }

    fn observe(&mut self, kind: SimulatedKind, new: &Arc<Stored>) {
        let key = SimulatedKey::of(kind, new);
        // `observe_pod` adds the key of a new Pod to `seen` itself.
        if kind != SimulatedKind::Pod {
            self.facts.seen.insert(key.clone());
        }
        match kind {
            SimulatedKind::Pod => self.observe_pod(new),
            SimulatedKind::ReplicaSet => {
                let controller = controller_of(new.lean());
                set_member(&mut self.facts.orphans, &key, controller.is_none());
                if controller.is_none() {
                    self.queue_kind(SimulatedKind::Budget, Some(&new.namespace));
                }
                let sets = &mut self.facts.set_controllers;
                let known = match &controller {
                    Some(controller) => sets.insert(name_of(new), controller.clone()),
                    None => sets.remove(&name_of(new)),
                };
                if known != controller {
                    self.queue_controller(known.as_ref(), &new.namespace);
                }
                self.queue_controller(controller.as_ref(), &new.namespace);
            }
            SimulatedKind::Node => {
                let facts = NodeFacts::of(new.lean());
                let name = Arc::clone(&new.name);
                let known = self.facts.nodes.insert(name, facts.clone());
                if known != Some(facts) {
                    self.queue_after_node_change();
                }
            }
            SimulatedKind::Service => {
                self.facts.services.insert(name_of(new), Arc::clone(new));
            }
            SimulatedKind::Job => {
                self.queue_controller(controller_of(new.lean()).as_ref(), &new.namespace);
            }
            SimulatedKind::Claim => {
                let namespace = &new.namespace;
                let first = (Arc::clone(namespace), Arc::from(""));
                let waiting = self.facts.unscheduled.range(first..);
                for (_, name) in waiting.take_while(|(own, _)| own == namespace) {
                    let key = SimulatedKey::new(SimulatedKind::Pod, namespace, name);
                    self.work_queue.add(key);
                }
            }
            SimulatedKind::Volume => {
                // An unbound volume may fit a claim that waits for a volume.
                if text(&new.lean()["spec"]["claimRef"], "uid").is_empty() {
                    self.queue_kind(SimulatedKind::Claim, None);
                }
            }
            SimulatedKind::Class => self.queue_kind(SimulatedKind::Claim, None),
            SimulatedKind::Budget => {
                let selector = label_selector(&new.lean()["spec"]["selector"]);
                self.facts.budgets.insert(name_of(new), selector);
            }
            SimulatedKind::StatefulSet | SimulatedKind::Deployment => {
                self.queue_kind(SimulatedKind::Budget, Some(&new.namespace));
            }
            SimulatedKind::DaemonSet | SimulatedKind::CronJob => {}
        }
        self.work_queue.add(key);
    }

    /// Queues the Services and budgets that selected a Pod by its old labels; its controller may release the Pod.
    fn observe_old(&mut self, kind: SimulatedKind, new: &Stored, old: &Stored) {
        if kind == SimulatedKind::Pod && !old.labelled_as(new) {
            self.queue_selecting(old);
            self.add_release_candidate(controller_of(&new.look()).as_ref(), new);
        }
    }

    fn forget(&mut self, kind: SimulatedKind, gone: &Stored) {
        let key = SimulatedKey::of(kind, gone);
        let name = name_of(gone);
        self.facts.seen.remove(&key);
        self.facts.orphans.remove(&key);
        match kind {
            SimulatedKind::Pod => {
                if let Some(facts) = self.facts.pods.remove(&name) {
                    self.facts.index_owned_pod(&name, facts.belongs(), false);
                    self.facts.count_pod(&name, &facts, false);
                    self.queue_controller(facts.controller.as_ref(), &gone.namespace);
                }
                self.queue_selecting(gone);
            }
            SimulatedKind::ReplicaSet => {
                let known = self.facts.set_controllers.remove(&name);
                // The two controllers differ if the simulator missed the change from one to the other (PLAY-3).
                for controller in [known, controller_of(&gone.look())] {
                    self.queue_controller(controller.as_ref(), &gone.namespace);
                }
            }
            SimulatedKind::Job => {
                self.queue_controller(controller_of(&gone.look()).as_ref(), &gone.namespace);
            }
            SimulatedKind::Node => {
                self.facts.nodes.remove(&gone.name);
                self.queue_after_node_change();
            }
            SimulatedKind::Service => {
                self.facts.services.remove(&name);
                self.work_queue.add(key);
            }
            SimulatedKind::Claim => self.work_queue.add(key),
            SimulatedKind::Budget => {
                self.facts.budgets.remove(&name);
            }
            SimulatedKind::StatefulSet
            | SimulatedKind::DaemonSet
            | SimulatedKind::CronJob
            | SimulatedKind::Deployment
            | SimulatedKind::Volume
            | SimulatedKind::Class => {}
        }
    }

    fn observe_pod(&mut self, new: &Arc<Stored>) {
        let pod = new.look();
        let name = name_of(new);
        let cost = annotation(&pod, "controller.kubernetes.io/pod-deletion-cost").parse();
        let known = self.facts.pods.remove(&name);
        let mut facts = PodFacts {
            controller: controller_of(&pod),
            stage: stage_of(&pod),
            has_ended: has_ended(&pod),
            since: self.tick,
            ready: is_condition_true(&pod, "Ready"),
            ready_at: self.tick,
            node: text(&pod["spec"], "nodeName").into(),
            tracked: is_tracked(&pod),
            cost: cost.unwrap_or(0),
        };
        let controller = facts.controller.clone();
        let same = known.as_ref().map(|known| &known.controller) == Some(&controller);
        if !same {
            self.add_release_candidate(controller.as_ref(), new);
        }
        let belonged = known.as_ref().and_then(PodFacts::belongs);
        if belonged != facts.belongs() {
            self.facts.index_owned_pod(&name, belonged, false);
            self.facts.index_owned_pod(&name, facts.belongs(), true);
        }
        let key = SimulatedKey::of(SimulatedKind::Pod, new);
        if let Some(known) = known {
            self.facts.count_pod(&name, &known, false);
            if known.stage == facts.stage {
                facts.since = known.since;
            }
            if known.ready && facts.ready {
                facts.ready_at = known.ready_at;
            }
            if !same {
                self.queue_controller(known.controller.as_ref(), &new.namespace);
            }
        } else {
            self.facts.seen.insert(key.clone());
        }
        self.facts.count_pod(&name, &facts, true);
        set_member(&mut self.facts.orphans, &key, controller.is_none());
        if controller.is_none() {
            // The Pod has no controller, and an object of one of these kinds may adopt it.
            for kind in [
                SimulatedKind::ReplicaSet,
                SimulatedKind::StatefulSet,
                SimulatedKind::DaemonSet,
                SimulatedKind::Job,
            ] {
                self.queue_kind(kind, Some(&new.namespace));
            }
        }
        self.queue_controller(controller.as_ref(), &new.namespace);
        self.facts.pods.insert(name, facts);
        self.queue_selecting(new);
    }

    fn queue_kind(&mut self, kind: SimulatedKind, namespace: Option<&Arc<str>>) {
        for key in keys_of(&self.facts.seen, kind, namespace) {
            self.work_queue.add(key.clone());
        }
    }

    /// Queues the Services and the PodDisruptionBudgets with a selector that matches a Pod.
    fn queue_selecting(&mut self, pod: &Stored) {
        let first = (Arc::clone(&pod.namespace), Arc::from(""));
        let is_near = |key: &NamespacedName| key.0 == pod.namespace;
        let services = self.facts.services.range(first.clone()..);
        for ((namespace, name), service) in services.take_while(|(key, _)| is_near(key)) {
            if selects(&service.lean()["spec"]["selector"], pod) {
                let key = SimulatedKey::new(SimulatedKind::Service, namespace, name);
                self.work_queue.add(key);
            }
        }
        let budgets = self.facts.budgets.range(first..);
        for ((namespace, name), selector) in budgets.take_while(|(key, _)| is_near(key)) {
            if selects_by(selector.as_ref(), pod) {
                let key = SimulatedKey::new(SimulatedKind::Budget, namespace, name);
                self.work_queue.add(key);
            }
        }
    }

    /// Queues the unscheduled Pods, which may fit a node now, and the DaemonSets, which run a Pod per node.
    fn queue_after_node_change(&mut self) {
        for (namespace, name) in &self.facts.unscheduled {
            let key = SimulatedKey::new(SimulatedKind::Pod, namespace, name);
            self.work_queue.add(key);
        }
        self.queue_kind(SimulatedKind::DaemonSet, None);
    }

    fn queue_controller(&mut self, controller: Option<&Controller>, namespace: &Arc<str>) {
        if let Some(key) = controller.and_then(|controller| controller.key(namespace)) {
            self.work_queue.add(key);
        }
    }

    /// Notes for the next reconcile of a controller that its selector may no longer match this Pod.
    fn add_release_candidate(&mut self, controller: Option<&Controller>, pod: &Stored) {
        if let Some(key) = controller.and_then(|controller| controller.key(&pod.namespace)) {
            self.work_queue.add_release_candidate(key, name_of(pod));
        }
    }
}

/// Adds a value to a set if `is_member` is true; otherwise removes it.
fn set_member<T: Ord + Clone>(set: &mut BTreeSet<T>, value: &T, is_member: bool) {
    if is_member {
        set.insert(value.clone());
    } else {
        set.remove(value);
    }
}

fn keys_of<'a>(
    keys: &'a BTreeSet<SimulatedKey>,
    kind: SimulatedKind,
    namespace: Option<&Arc<str>>,
) -> impl Iterator<Item = &'a SimulatedKey> {
    let first = SimulatedKey::first(kind, namespace.map_or("", |namespace| namespace));
    let is_near = move |key: &&SimulatedKey| {
        key.kind == kind && namespace.is_none_or(|namespace| key.namespace == *namespace)
    };
    keys.range(first..).take_while(is_near)
}

/// Returns whether the selector of a Service matches the labels of a Pod; an empty selector matches no Pod.
pub(crate) fn selects(selector: &Value, pod: &Stored) -> bool {
    selector.as_object().is_some_and(|wanted| {
        let fits = |(label, value): (&String, &Value)| pod.label(label) == value.as_str();
        !wanted.is_empty() && wanted.iter().all(fits)
    })
}

/// Returns whether a label selector matches the labels of an object; `None` matches no object.
pub(crate) fn selects_by(selector: Option<&LabelSelector>, object: &Stored) -> bool {
    selector.is_some_and(|selector| selector.matches_labels(|key| object.label(key)))
}
