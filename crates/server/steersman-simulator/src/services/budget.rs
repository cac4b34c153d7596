//! Machine: the controller of PodDisruptionBudgets, which computes how many Pods may be evicted.
//!
//! Upstream: `pkg/controller/disruption`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_registry::{ObjectTarget, Subresource};
use steersman_store::Stored;

use crate::actions::turn_context::TurnContext;
use crate::pods::owned_pods::set_condition;
use crate::state::cluster_facts::selects_by;
use crate::state::facts::{
    Controller, SimulatedKind, cloned_items, controller_of, controlling_owner, count,
    is_condition_true, name_of, number, scaled_value, text, time, transition_time,
};

/// The time, in seconds, after which an evicted Pod that still exists counts as healthy again (upstream: 2 minutes).
const EVICTION_TIMEOUT_SECONDS: i64 = 120;

/// The number of Pods that a budget expects (`expectedPods`), and how many must be healthy (`desiredHealthy`).
#[derive(Debug, Clone, Copy)]
struct BudgetTarget {
    expected: i64,
    healthy: i64,
}

/// The uid of a controller of Pods, and the number of replicas in its spec.
type Scale = (Arc<str>, i64);

impl TurnContext<'_> {
    /// Writes the status of a budget: how many of its Pods are healthy, and how many may be evicted.
    pub(crate) fn reconcile_budget(&mut self, budget: &Stored) {
        let Some(selector) = self.cluster.budgets.get(&name_of(budget)) else {
            return;
        };
        let storage = &self.kinds.of(SimulatedKind::Pod).storage;
        let all = self.registry.store().list(storage, Some(&budget.namespace));
        let selected = all.filter(|pod| selects_by(selector.as_ref(), pod));
        let pods: Vec<Arc<Stored>> = selected.cloned().collect();
        let old = &budget.lean()["status"];
        let mut status = old.as_object().cloned().unwrap_or_default();
        let generation = &budget.lean()["metadata"]["generation"];
        let wanted = match self.wanted(budget.lean(), &pods) {
            Ok(wanted) => wanted,
            Err(why) => {
                status.insert("disruptionsAllowed".to_owned(), json!(0));
                let state = ("False", "SyncFailed", why.as_str());
                let conditions =
                    self.with_disruption_allowed(old, state, &old["observedGeneration"]);
                status.insert("conditions".to_owned(), conditions);
                self.write_status(budget, status);
                return;
            }
        };
        let disrupted = self.disrupted(old, &pods);
        let healthy = pods.iter().filter(|pod| {
            !pod.is_terminating()
                && !disrupted.contains_key(&*pod.name)
                && is_condition_true(pod.lean(), "Ready")
        });
        let healthy = count(healthy.count());
        let spare = (healthy - wanted.healthy).max(0);
        let allowed = if wanted.expected > 0 { spare } else { 0 };
        for (field, count) in [
            ("currentHealthy", healthy),
            ("desiredHealthy", wanted.healthy),
            ("expectedPods", wanted.expected),
            ("disruptionsAllowed", allowed),
        ] {
            status.insert(field.to_owned(), json!(count));
        }
        if disrupted.is_empty() {
            status.remove("disruptedPods");
        } else {
            status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
        }
        status.insert("observedGeneration".to_owned(), generation.clone());
        let state = if allowed > 0 {
            ("True", "SufficientPods", "")
        } else {
            ("False", "InsufficientPods", "")
        };
        let conditions = self.with_disruption_allowed(old, state, generation);
        status.insert("conditions".to_owned(), conditions);
        self.write_status(budget, status);
    }

    fn with_disruption_allowed(
        &self,
        old: &Value,
        (condition_status, reason, message): (&str, &str, &str),
        generation: &Value,
    ) -> Value {
        let mut conditions = cloned_items(&old["conditions"]);
        let mut known = conditions.iter();
        let known = known
            .find(|one| one["type"] == "DisruptionAllowed" && one["status"] == condition_status);
        let condition = json!({
            "type": "DisruptionAllowed", "status": condition_status, "reason": reason, "message": message,
            "lastTransitionTime": transition_time(known, || self.wall()), "observedGeneration": generation,
        });
        set_condition(&mut conditions, condition);
        Value::Array(conditions)
    }

    /// Computes how many of these Pods the budget expects, and how many of them must be healthy.
    ///
    /// # Errors
    /// Fails with a message if the expected number is unknown, for instance because a controller has no scale.
    fn wanted(&self, budget: &Value, pods: &[Arc<Stored>]) -> Result<BudgetTarget, String> {
        let spec = &budget["spec"];
        let (most, least) = (&spec["maxUnavailable"], &spec["minAvailable"]);
        let (expected, healthy) = if !most.is_null() {
            let expected = self.expected(pods)?;
            let healthy = (expected - scaled_value(most, expected, true)).max(0);
            (expected, healthy)
        } else if let Some(healthy) = least.as_i64() {
            (count(pods.len()), healthy)
        } else if least.is_string() {
            let expected = self.expected(pods)?;
            (expected, scaled_value(least, expected, true))
        } else {
            (0, 0)
        };
        Ok(BudgetTarget { expected, healthy })
    }

    /// Returns the number of replicas that the controllers of these Pods want, each controller counted once.
    fn expected(&self, pods: &[Arc<Stored>]) -> Result<i64, String> {
        let mut scales: HashMap<Arc<str>, i64> = HashMap::new();
        for pod in pods {
            let Some(controller) = controller_of(pod.lean()) else {
                continue;
            };
            if scales.contains_key(&controller.uid) {
                continue;
            }
            let scale = match controller.kind {
                Some(kind @ (SimulatedKind::ReplicaSet | SimulatedKind::StatefulSet)) => {
                    self.replicas_of(kind, &pod.namespace, &controller)
                }
                _ => self.scale_of(pod, &controller)?,
            };
            let Some((uid, scale)) = scale else {
                return Err(format!("found no controllers for pod \"{}\"", pod.name));
            };
            scales.insert(uid, scale);
        }
        Ok(scales.values().sum())
    }

    /// Returns uid and replicas of a ReplicaSet or StatefulSet, or of the Deployment that controls the ReplicaSet.
    fn replicas_of(
        &self,
        kind: SimulatedKind,
        namespace: &str,
        controller: &Controller,
    ) -> Option<Scale> {
        let found = self.get(kind, namespace, &controller.name)?;
        let found = Some(found).filter(|found| found.meta("uid") == &*controller.uid)?;
        let above =
            controller_of(found.lean()).filter(|own| own.kind == Some(SimulatedKind::Deployment));
        let above = above.and_then(|own| self.get(SimulatedKind::Deployment, namespace, &own.name));
        let top = above.unwrap_or(found);
        let replicas = number(&top.lean()["spec"]["replicas"], 1);
        Some((top.meta("uid").into(), replicas))
    }

    /// Returns uid and replicas of a controller that is no ReplicaSet or StatefulSet, from its scale subresource;
    /// `None` if the controller does not exist.
    ///
    /// # Errors
    /// Fails with a message if the controller's kind is not served or has no scale.
    fn scale_of(&self, pod: &Stored, controller: &Controller) -> Result<Option<Scale>, String> {
        let owner = controlling_owner(pod.lean()).unwrap_or(&Value::Null);
        let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
        let mut all = self.registry.resources().iter();
        let resource = all
            .find(|known| known.kind == kind && known.api_version() == version)
            .ok_or_else(|| format!("no matches for kind \"{kind}\" in version \"{version}\""))?;
        if resource.scale.is_none() {
            return Err(format!(
                "{}/{}, Resource={} does not implement the scale subresource",
                resource.group, resource.version, resource.plural
            ));
        }
        let namespace = resource.namespaced.then_some(&*pod.namespace);
        let target = ObjectTarget::object(resource, namespace, &controller.name);
        let target = target.part(Subresource::Scale);
        let scale = match self.registry.get(target, None) {
            Ok(scale) => scale,
            Err(missing) if missing.code == 404 => return Ok(None),
            Err(refusal) => return Err(refusal.message),
        };
        let scale = scale.value();
        if text(&scale["metadata"], "uid") != &*controller.uid {
            return Ok(None);
        }
        let replicas = number(&scale["spec"]["replicas"], 0);
        Ok(Some((Arc::clone(&controller.uid), replicas)))
    }

    /// Returns the entries of `disruptedPods` younger than [`EVICTION_TIMEOUT_SECONDS`] with Pods not yet terminating.
    fn disrupted(&mut self, old: &Value, pods: &[Arc<Stored>]) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, since) in old["disruptedPods"].as_object().into_iter().flatten() {
            let mut all = pods.iter();
            let pod = all.find(|pod| *pod.name == **name);
            let there = pod.is_some_and(|pod| !pod.is_terminating());
            let passed = time(since).map_or(i64::MAX, |since| self.seconds_since(since));
            let left = EVICTION_TIMEOUT_SECONDS.saturating_sub(passed);
            if there && left > 0 {
                kept.insert(name.clone(), since.clone());
                self.requeue_after(Duration::from_secs(left.unsigned_abs()));
            }
        }
        kept
    }
}
