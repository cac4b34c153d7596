//! Machine: what the controllers of Pods share: creating and adopting Pods, and choosing the Pods to delete.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_apimachinery::selector::LabelSelector;
use steersman_apimachinery::status::Status;
use steersman_store::Stored;

use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    NamespacedName, PodFacts, PodStage, SimulatedKind, controller_reference, controlling_owner,
    count, label_selector, name_of, stage_of,
};

/// The time until a controller tries again after the server refused to create a Pod.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_secs(1);

impl<'a> TurnContext<'a> {
    /// Builds a Pod from a template, with `owner` as its controller and the owner's name at the start of its name.
    pub(crate) fn pod_of(owner: &Stored, template: &Value) -> Value {
        let mut metadata = json!({
            "generateName": format!("{}-", owner.name),
            "ownerReferences": [controller_reference(owner)],
        });
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = template["metadata"].get(field) {
                metadata[field] = value.clone();
            }
        }
        let spec = &template["spec"];
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// Creates a Pod for an owner. If the server refuses, queues the owner again after `RETRY_AFTER_REFUSAL`.
    ///
    /// # Errors
    /// Returns the `Status` of the refusal.
    pub(crate) fn create_pod(&mut self, owner: &Stored, pod: Value) -> Result<(), Status> {
        let pods = self.kinds.of(SimulatedKind::Pod);
        let name = pod["metadata"]["name"].clone();
        let made = self.create(pods, &self.key.namespace, pod);
        let (is_named, set) = (self.key.kind == SimulatedKind::StatefulSet, &owner.name);
        match made {
            Ok(pod) => {
                let name = &pod.name;
                let message = if is_named {
                    format!("create Pod {name} in StatefulSet {set} successful")
                } else {
                    format!("Created pod: {name}")
                };
                self.report(owner, "SuccessfulCreate", message);
                Ok(())
            }
            Err(refusal) => {
                let (name, why) = (name.as_str().unwrap_or_default(), &refusal.message);
                let message = if is_named {
                    format!("create Pod {name} in StatefulSet {set} failed error: {why}")
                } else {
                    format!("Error creating: {why}")
                };
                self.warn(owner, "FailedCreate", message);
                self.requeue_after(RETRY_AFTER_REFUSAL);
                Err(refusal)
            }
        }
    }

    pub(crate) fn delete_pod(&mut self, owner: &Stored, pod: &Stored) {
        let pods = self.kinds.of(SimulatedKind::Pod);
        if self.delete(pods, pod, None) {
            let (pod, set) = (&pod.name, &owner.name);
            let message = match self.key.kind {
                SimulatedKind::StatefulSet => {
                    format!("delete Pod {pod} in StatefulSet {set} successful")
                }
                _ => format!("Deleted pod: {pod}"),
            };
            self.report(owner, "SuccessfulDelete", message);
        }
    }

    /// Adopts the Pods without a controller that the owner's selector matches, and removes the owner reference of its
    /// Pods that the selector no longer matches. Returns whether a Pod changed; then the owner is processed again once
    /// the simulator has read the change (PLAY-2).
    ///
    /// Upstream: `PodControllerRefManager.ClaimPods`.
    pub(crate) fn claim_pods(&mut self, owner: &Stored) -> bool {
        let release_candidates = self.work_queue.take_release_candidates(self.key);
        let orphans = self.cluster.orphans(SimulatedKind::Pod, &owner.namespace);
        if orphans.is_empty() && release_candidates.is_empty() {
            return false;
        }
        let Some(selector) = selector_of(owner.lean()) else {
            return false;
        };
        let kind = self.key.kind;
        let ordinals = (kind == SimulatedKind::StatefulSet).then(|| format!("{}-", owner.name));
        let fits = |pod: &Stored| {
            let named = ordinals.as_ref().is_none_or(|prefix| {
                let number = pod.name.strip_prefix(prefix.as_str());
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            });
            named && selector.matches_labels(|key| pod.label(key))
        };
        // A ReplicaSet neither adopts nor releases finished Pods; no controller does so with terminating Pods.
        let concerns = |pod: &Stored| match stage_of(pod.lean()) {
            PodStage::Terminating => false,
            PodStage::Finished => kind != SimulatedKind::ReplicaSet,
            PodStage::Unscheduled | PodStage::Scheduled | PodStage::Running => true,
        };
        let before = self.registry.revision();
        for name in release_candidates {
            let Some(pod) = self.get(SimulatedKind::Pod, &name.0, &name.1) else {
                continue;
            };
            // Most Pods still match, and this check reads the labels without decoding the Pod, so it comes first.
            if fits(&pod) {
                continue;
            }
            let own = controlling_owner(pod.lean());
            if own.is_none_or(|own| own["uid"] != owner.meta("uid")) {
                continue;
            }
            if self.is_at_write_limit() {
                self.work_queue
                    .add_release_candidate(self.key.clone(), name);
                self.requeue();
            } else if concerns(&pod) {
                self.disown(SimulatedKind::Pod, &pod, owner);
            }
        }
        for at in orphans {
            let Some(pod) = self.get(SimulatedKind::Pod, &at.namespace, &at.name) else {
                continue;
            };
            if fits(&pod) && concerns(&pod) {
                if self.is_interrupted() {
                    break;
                }
                self.adopt(SimulatedKind::Pod, &pod, owner);
            }
        }
        self.registry.revision() > before
    }

    pub(crate) fn facts(&self, pod: &Stored) -> Option<&'a PodFacts> {
        self.cluster.pods.get(&name_of(pod))
    }

    /// Returns whether a Pod has been ready for `seconds`. If a ready Pod needs longer, queues its owner for that time.
    pub(crate) fn is_available(&mut self, pod: &PodFacts, seconds: i64) -> bool {
        if !pod.ready {
            return false;
        }
        let seconds = Duration::from_secs(seconds.max(0).unsigned_abs());
        let at = pod.ready_at.saturating_add(seconds);
        if at > self.now.tick {
            self.requeue_at(at);
        }
        at <= self.now.tick
    }

    /// Returns up to `many` active Pods to delete, in upstream's order: unready Pods, then by deletion cost and age.
    pub(crate) fn pods_to_delete(&self, owner: &Stored, many: usize) -> Vec<Arc<Stored>> {
        let cluster = self.cluster;
        let active = cluster.own(owner.meta("uid")).filter_map(|(name, facts)| {
            let rank = match facts.stage {
                PodStage::Unscheduled => 0,
                PodStage::Scheduled => 1,
                PodStage::Running => 2,
                PodStage::Finished | PodStage::Terminating => return None,
            };
            Some(((rank, facts.ready, facts.cost), name))
        });
        let stored = |name: &NamespacedName| self.get(SimulatedKind::Pod, &name.0, &name.1);
        if self.cluster.tally(owner.meta("uid")).active <= count(many) {
            // All active Pods are deleted, so their order does not matter; this reconcile deletes up to `write_limit`.
            let some = active.take(self.write_limit.max(1));
            return some.filter_map(|(_, name)| stored(name)).collect();
        }
        let ranked = active.filter_map(|(rank, name)| {
            let pod = stored(name)?;
            let age = Reverse(pod.meta("creationTimestamp").to_owned());
            Some(((rank, age), pod))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
        ranked.truncate(many);
        ranked.into_iter().map(|(_, pod)| pod).collect()
    }
}

/// Returns the parsed `spec.selector` of a controller; `None` if it is absent, empty or invalid.
pub(crate) fn selector_of(object: &Value) -> Option<LabelSelector> {
    label_selector(&object["spec"]["selector"]).filter(|selector| !selector.is_empty())
}

/// Replaces the condition of the same type in a list of conditions, or appends the new one.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, condition: Value) {
    let mut known = conditions.iter_mut();
    match known.find(|one| one["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
