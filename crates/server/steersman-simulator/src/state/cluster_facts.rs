//! Machine: the facts about the cluster that the simulator keeps, updated from the changes of the store, and the
//! rules that decide which objects a change concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_apimachinery::selector::LabelSelector;
use steersman_registry::Registry;
use steersman_store::Stored;

use super::facts::{
    Controller, NamespacedName, PodFacts, PodStage, PodTally, SimulatedKey, SimulatedKind,
    annotation, controller_of, is_condition_true, is_tracked, stage_of, text,
};
use super::kinds::Kinds;
use super::nodes::NodeFacts;
use super::work_queue::{WorkQueue, add_release_candidate, queue_controller};

/// The facts about the Pods, nodes and Services of a cluster, as of the last read change of the store.
#[derive(Debug, Default)]
pub(crate) struct ClusterFacts {
    pub(crate) pods: HashMap<NamespacedName, PodFacts>,
    pub(crate) nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// The number of Pods per node, including nodes that do not exist.
    pub(crate) pods_per_node: HashMap<Arc<str>, i64>,
    /// The numbers of Pods by the uid of their controller.
    tallies: HashMap<Arc<str>, PodTally>,
    /// The Pods of each controller, by the controller's uid, that the controller still has to
    /// handle: unfinished Pods, and finished Pods that a Job has not counted.
    own: HashMap<Arc<str>, BTreeSet<NamespacedName>>,
    /// The controllers of ReplicaSets.
    set_controllers: HashMap<NamespacedName, Controller>,
    /// The Services, by key, for matching their selectors.
    services: BTreeMap<NamespacedName, Arc<Stored>>,
    /// The selectors of PodDisruptionBudgets; `None` matches nothing.
    pub(crate) budgets: BTreeMap<NamespacedName, Option<LabelSelector>>,
    /// Pods without a node.
    unscheduled: BTreeSet<NamespacedName>,
    /// Pods and ReplicaSets without a controller.
    orphans: BTreeSet<SimulatedKey>,
    /// All other objects that the simulator has seen.
    seen: BTreeSet<SimulatedKey>,
    /// The revision up to which the changes of each kind were read; `None` before the first read.
    positions: [Option<u64>; SimulatedKind::ALL.len()],
}

impl ClusterFacts {
    pub(crate) fn tally(&self, uid: &str) -> PodTally {
        self.tallies.get(uid).copied().unwrap_or_default()
    }

    /// Returns the Pods that a controller still has to handle, in the order of their names.
    pub(crate) fn own(&self, uid: &str) -> impl Iterator<Item = (&NamespacedName, &PodFacts)> {
        let all = self.own.get(uid).into_iter().flatten();
        all.filter_map(|name| Some((name, self.pods.get(name)?)))
    }

    /// Returns the Pods or ReplicaSets of a namespace that have no controller.
    pub(crate) fn orphans(&self, kind: SimulatedKind, namespace: &Arc<str>) -> Vec<SimulatedKey> {
        let first = SimulatedKey {
            kind,
            namespace: Arc::clone(namespace),
            name: "".into(),
        };
        let from = self.orphans.range(first..);
        from.take_while(|key| key.kind == kind && key.namespace == *namespace)
            .cloned()
            .collect()
    }

    /// Reads the changes since the last call, or every object if the store has compacted those
    /// changes (PLAY-3).
    pub(crate) fn read_changes(
        &mut self,
        registry: &Registry,
        kinds: &Kinds,
        tick: Duration,
        work_queue: &mut WorkQueue,
    ) {
        for (at, kind) in SimulatedKind::ALL.into_iter().enumerate() {
            let storage = &kinds.of(kind).storage;
            let changes =
                self.positions[at].and_then(|after| registry.store().changes(storage, after).ok());
            if let Some(changes) = changes {
                for change in changes {
                    if change.deleted {
                        self.forget(kind, &change.new, work_queue);
                        continue;
                    }
                    if let Some(old) = &change.old {
                        self.observe_old(kind, &change.new, old, work_queue);
                    }
                    // A later change of the same object follows and is processed instead, so no
                    // other code reads this state.
                    let (namespace, name) = (&change.new.namespace, &change.new.name);
                    let newest = registry.store().get(storage, namespace, name);
                    if let Some(new) = newest.filter(|new| new.revision == change.revision) {
                        self.observe(kind, new, tick, work_queue);
                    } else if kind == SimulatedKind::ReplicaSet {
                        // A controller that the object no longer has may adopt the object again.
                        let controller = controller_of(&change.new.look());
                        queue_controller(controller, namespace, work_queue);
                    }
                }
            } else {
                self.relist(registry, kind, kinds, tick, work_queue);
            }
            self.positions[at] = Some(registry.revision());
        }
    }

    /// Queues every object of a kind, and every known object that no longer exists.
    fn relist(
        &mut self,
        registry: &Registry,
        kind: SimulatedKind,
        kinds: &Kinds,
        tick: Duration,
        work_queue: &mut WorkQueue,
    ) {
        let storage = &kinds.of(kind).storage;
        let first = SimulatedKey {
            kind,
            namespace: "".into(),
            name: "".into(),
        };
        let known: Vec<SimulatedKey> = self
            .seen
            .range(first..)
            .take_while(|key| key.kind == kind)
            .cloned()
            .collect();
        for key in known {
            if registry
                .store()
                .get(storage, &key.namespace, &key.name)
                .is_none()
            {
                let gone = Stored::new(key.namespace, key.name, Value::Null, 0);
                self.forget(kind, &gone, work_queue);
            }
        }
        for stored in registry.store().list(storage, None) {
            self.observe(kind, stored, tick, work_queue);
            if kind == SimulatedKind::Pod {
                // The labels of the object may have changed in a missed change.
                add_release_candidate(controller_of(&stored.look()).as_ref(), stored, work_queue);
            }
        }
    }

    fn observe(
        &mut self,
        kind: SimulatedKind,
        new: &Arc<Stored>,
        tick: Duration,
        work_queue: &mut WorkQueue,
    ) {
        let key = SimulatedKey::of(kind, new);
        // The difference of a known Pod is determined below.
        if kind != SimulatedKind::Pod {
            self.seen.insert(key.clone());
        }
        match kind {
            SimulatedKind::Pod => self.observe_pod(new, tick, work_queue),
            SimulatedKind::ReplicaSet => {
                let controller = controller_of(new.lean());
                self.set_orphan(&key, controller.is_none());
                if controller.is_none() {
                    self.queue_namespace(SimulatedKind::Budget, &new.namespace, work_queue);
                }
                let name = (Arc::clone(&new.namespace), Arc::clone(&new.name));
                let known = match &controller {
                    Some(controller) => self.set_controllers.insert(name, controller.clone()),
                    None => self.set_controllers.remove(&name),
                };
                if known != controller {
                    queue_controller(known, &new.namespace, work_queue);
                }
                queue_controller(controller, &new.namespace, work_queue);
            }
            SimulatedKind::Node => {
                let facts = NodeFacts::of(new.lean());
                let known = self.nodes.get(&new.name);
                let changed = known != Some(&facts);
                self.nodes.insert(Arc::clone(&new.name), facts);
                if changed {
                    self.queue_after_node_change(work_queue);
                }
            }
            SimulatedKind::Service => {
                self.services.insert(
                    (Arc::clone(&new.namespace), Arc::clone(&new.name)),
                    Arc::clone(new),
                );
            }
            SimulatedKind::Job => {
                queue_controller(controller_of(new.lean()), &new.namespace, work_queue)
            }
            SimulatedKind::Claim => self.queue_unscheduled(&new.namespace, work_queue),
            SimulatedKind::Volume => {
                // A claim may be waiting for an unbound volume.
                if text(&new.lean()["spec"]["claimRef"], "uid").is_empty() {
                    self.queue_claims(work_queue);
                }
            }
            SimulatedKind::Class => self.queue_claims(work_queue),
            SimulatedKind::Budget => {
                let selector = &new.lean()["spec"]["selector"];
                let selector = selector.is_object().then(|| {
                    LabelSelector::parse(&steersman_registry::selector_text(selector)).ok()
                });
                let name = (Arc::clone(&new.namespace), Arc::clone(&new.name));
                self.budgets.insert(name, selector.flatten());
            }
            SimulatedKind::StatefulSet | SimulatedKind::Deployment => {
                self.queue_namespace(SimulatedKind::Budget, &new.namespace, work_queue);
            }
            SimulatedKind::DaemonSet | SimulatedKind::CronJob => {}
        }
        work_queue.add(key);
    }

    /// Queues the objects that only the earlier state of an object concerns.
    fn observe_old(
        &self,
        kind: SimulatedKind,
        new: &Stored,
        old: &Stored,
        work_queue: &mut WorkQueue,
    ) {
        if kind == SimulatedKind::Pod && !old.labelled_as(new) {
            self.queue_selecting(old, work_queue);
            add_release_candidate(controller_of(&new.look()).as_ref(), new, work_queue);
        }
    }

    fn forget(&mut self, kind: SimulatedKind, gone: &Stored, work_queue: &mut WorkQueue) {
        let key = SimulatedKey::of(kind, gone);
        self.seen.remove(&key);
        self.orphans.remove(&key);
        let name = (Arc::clone(&gone.namespace), Arc::clone(&gone.name));
        match kind {
            SimulatedKind::Pod => {
                if let Some(facts) = self.pods.remove(&name) {
                    self.index_owned_pod(&name, facts.belongs(), false);
                    self.count_pod(&name, &facts, false);
                    queue_controller(facts.controller, &gone.namespace, work_queue);
                }
                self.queue_selecting(gone, work_queue);
            }
            SimulatedKind::ReplicaSet => {
                let known = self.set_controllers.remove(&name);
                queue_controller(known, &gone.namespace, work_queue);
                // The controller differs from the known one if its change was not observed.
                queue_controller(controller_of(&gone.look()), &gone.namespace, work_queue);
            }
            SimulatedKind::Job => {
                queue_controller(controller_of(&gone.look()), &gone.namespace, work_queue);
            }
            SimulatedKind::Node => {
                self.nodes.remove(&gone.name);
                self.queue_after_node_change(work_queue);
            }
            SimulatedKind::Service => {
                self.services.remove(&name);
                work_queue.add(key);
            }
            SimulatedKind::Claim => work_queue.add(key),
            SimulatedKind::Budget => {
                self.budgets.remove(&name);
            }
            SimulatedKind::StatefulSet
            | SimulatedKind::DaemonSet
            | SimulatedKind::CronJob
            | SimulatedKind::Deployment
            | SimulatedKind::Volume
            | SimulatedKind::Class => {}
        }
    }

    fn observe_pod(&mut self, new: &Arc<Stored>, tick: Duration, work_queue: &mut WorkQueue) {
        let pod = new.look();
        let name = (Arc::clone(&new.namespace), Arc::clone(&new.name));
        let known = self.pods.remove(&name);
        let mut facts = PodFacts {
            controller: controller_of(&pod),
            stage: stage_of(&pod),
            since: tick,
            ready: is_condition_true(&pod, "Ready"),
            ready_at: tick,
            node: text(&pod["spec"], "nodeName").into(),
            tracked: is_tracked(&pod),
            cost: annotation(&pod, "controller.kubernetes.io/pod-deletion-cost")
                .parse()
                .unwrap_or(0),
        };
        let same = known.as_ref().map(|known| &known.controller) == Some(&facts.controller);
        if !same {
            add_release_candidate(facts.controller.as_ref(), new, work_queue);
        }
        let belongs = known.as_ref().and_then(PodFacts::belongs);
        if belongs != facts.belongs() {
            let before = belongs.cloned();
            self.index_owned_pod(&name, before.as_ref(), false);
            self.index_owned_pod(&name, facts.belongs(), true);
        }
        let key = SimulatedKey::of(SimulatedKind::Pod, new);
        if known.is_none() {
            self.seen.insert(key.clone());
        }
        if let Some(known) = known {
            self.count_pod(&name, &known, false);
            if known.stage == facts.stage {
                facts.since = known.since;
            }
            if known.ready && facts.ready {
                facts.ready_at = known.ready_at;
            }
            if known.controller != facts.controller {
                queue_controller(known.controller, &new.namespace, work_queue);
            }
        }
        self.count_pod(&name, &facts, true);
        self.set_orphan(&key, facts.controller.is_none());
        if facts.controller.is_none() {
            // The selector of an object of these kinds may match the Pod.
            for kind in [
                SimulatedKind::ReplicaSet,
                SimulatedKind::StatefulSet,
                SimulatedKind::DaemonSet,
                SimulatedKind::Job,
            ] {
                self.queue_namespace(kind, &new.namespace, work_queue);
            }
        }
        queue_controller(facts.controller.clone(), &new.namespace, work_queue);
        self.pods.insert(name, facts);
        self.queue_selecting(new, work_queue);
    }

    /// Adds a Pod to the counts (`is_added`), or removes it.
    fn count_pod(&mut self, name: &NamespacedName, facts: &PodFacts, is_added: bool) {
        if let Some(controller) = &facts.controller {
            let tally = self.tallies.entry(Arc::clone(&controller.uid)).or_default();
            if is_added {
                tally.add(facts.tally());
            } else {
                tally.take(facts.tally());
                if *tally == PodTally::default() {
                    self.tallies.remove(&controller.uid);
                }
            }
        }
        if facts.stage == PodStage::Unscheduled {
            if is_added {
                self.unscheduled.insert(name.clone());
            } else {
                self.unscheduled.remove(name);
            }
        }
        if facts.stage != PodStage::Finished && !facts.node.is_empty() {
            let pod_count = self
                .pods_per_node
                .entry(Arc::clone(&facts.node))
                .or_default();
            *pod_count += if is_added { 1 } else { -1 };
            if *pod_count == 0 {
                self.pods_per_node.remove(&facts.node);
            }
        }
    }

    /// Adds a Pod to the Pods of its controller (`is_added`), or removes it.
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
        if is_added {
            own.insert(name.clone());
        } else {
            own.remove(name);
            if own.is_empty() {
                self.own.remove(uid);
            }
        }
    }

    fn set_orphan(&mut self, key: &SimulatedKey, is_orphan: bool) {
        if is_orphan {
            self.orphans.insert(key.clone());
        } else {
            self.orphans.remove(key);
        }
    }

    fn queue_namespace(
        &self,
        kind: SimulatedKind,
        namespace: &Arc<str>,
        work_queue: &mut WorkQueue,
    ) {
        let first = SimulatedKey {
            kind,
            namespace: Arc::clone(namespace),
            name: "".into(),
        };
        let from = self.seen.range(first..);
        for key in from.take_while(|key| key.kind == kind && key.namespace == *namespace) {
            work_queue.add(key.clone());
        }
    }

    fn queue_selecting(&self, pod: &Stored, work_queue: &mut WorkQueue) {
        let first = (Arc::clone(&pod.namespace), Arc::from(""));
        for ((namespace, name), service) in self.services.range(first..) {
            if *namespace != pod.namespace {
                break;
            }
            if selects(&service.lean()["spec"]["selector"], pod) {
                work_queue.add(SimulatedKey::new(SimulatedKind::Service, namespace, name));
            }
        }
        let first = (Arc::clone(&pod.namespace), Arc::from(""));
        for ((namespace, name), selector) in self.budgets.range(first..) {
            if *namespace != pod.namespace {
                break;
            }
            if selects_by(selector.as_ref(), pod) {
                work_queue.add(SimulatedKey::new(SimulatedKind::Budget, namespace, name));
            }
        }
    }

    fn queue_unscheduled(&self, namespace: &Arc<str>, work_queue: &mut WorkQueue) {
        let first = (Arc::clone(namespace), Arc::from(""));
        let from = self.unscheduled.range(first..);
        for (_, name) in from.take_while(|(own, _)| own == namespace) {
            work_queue.add(SimulatedKey::new(SimulatedKind::Pod, namespace, name));
        }
    }

    fn queue_claims(&self, work_queue: &mut WorkQueue) {
        let first = SimulatedKey {
            kind: SimulatedKind::Claim,
            namespace: "".into(),
            name: "".into(),
        };
        let from = self.seen.range(first..);
        for key in from.take_while(|key| key.kind == SimulatedKind::Claim) {
            work_queue.add(key.clone());
        }
    }

    /// Queues objects after a change of nodes: unscheduled Pods may fit now, and DaemonSets may
    /// need other nodes.
    fn queue_after_node_change(&self, work_queue: &mut WorkQueue) {
        for (namespace, name) in &self.unscheduled {
            work_queue.add(SimulatedKey::new(SimulatedKind::Pod, namespace, name));
        }
        for key in self
            .seen
            .iter()
            .filter(|key| key.kind == SimulatedKind::DaemonSet)
        {
            work_queue.add(key.clone());
        }
    }
}

/// Returns whether the equality selector of a Service matches a Pod; an empty one matches nothing.
pub(crate) fn selects(selector: &Value, pod: &Stored) -> bool {
    selector.as_object().is_some_and(|wanted| {
        let fits = |(label, value): (&String, &Value)| pod.label(label) == value.as_str();
        !wanted.is_empty() && wanted.iter().all(fits)
    })
}

/// Returns whether a selector matches a Pod; `None` matches nothing.
pub(crate) fn selects_by(selector: Option<&LabelSelector>, pod: &Stored) -> bool {
    selector.is_some_and(|selector| selector.matches_labels(|key| pod.label(key)))
}
