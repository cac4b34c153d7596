//! Machine: the ReplicaSet controller.

use serde_json::{Value, json};
use steersman_store::Stored;

use crate::actions::turn_context::{Component, TurnContext};
use crate::state::facts::{SimulatedKey, SimulatedKind, number};

impl TurnContext<'_> {
    /// Creates or deletes Pods until a ReplicaSet has its number of replicas, and writes its
    /// status.
    pub(crate) fn reconcile_replica_set(&mut self, key: &SimulatedKey) {
        let Some(set) = self.get(SimulatedKind::ReplicaSet, &key.namespace, &key.name) else {
            return;
        };
        let terminating = !set.meta("deletionTimestamp").is_empty();
        if !terminating && self.claim_pods(key, &set) {
            return;
        }
        let uid = set.meta("uid");
        let tally = self.cluster.tally(uid);
        let wanted = number(&set.lean()["spec"]["replicas"], 1);
        let mut refused = None;
        let mut created = 0;
        if !terminating && tally.active < wanted {
            let pod = Self::pod_of(&set, &set.lean()["spec"]["template"]);
            for _ in 0..wanted - tally.active {
                if self.is_at_write_limit() {
                    self.requeue(key);
                    break;
                }
                if let Err(refusal) = self.create_pod(key, &set, pod.clone()) {
                    refused = Some(refusal.message);
                    break;
                }
                created += 1;
            }
        } else if !terminating && tally.active > wanted {
            let many = usize::try_from(tally.active - wanted).unwrap_or(0);
            for pod in self.pods_to_delete(&set, many) {
                if self.is_at_write_limit() {
                    self.requeue(key);
                    break;
                }
                self.delete_pod(key, &set, &pod);
            }
        }
        let seconds = number(&set.lean()["spec"]["minReadySeconds"], 0);
        let available = if seconds > 0 {
            let mut available = 0;
            let cluster = self.cluster;
            for (_, pod) in cluster.own(uid) {
                available += i64::from(self.is_available(key, pod, seconds));
            }
            available
        } else {
            tally.ready
        };
        let conditions = self.replica_failures(&set, refused);
        // The Pods of this turn count, so that the next turn, which finds them in the facts, has
        // nothing to write. Upstream writes a status without these Pods first.
        let active = tally.active + created;
        let mut status = json!({
            "replicas": active,
            "observedGeneration": set.lean()["metadata"]["generation"],
        });
        for (field, count) in [
            ("fullyLabeledReplicas", active),
            ("readyReplicas", tally.ready),
            ("availableReplicas", available),
        ] {
            if count > 0 {
                status[field] = json!(count);
            }
        }
        status["terminatingReplicas"] = json!(tally.terminating);
        if !conditions.is_empty() {
            status["conditions"] = Value::Array(conditions);
        }
        self.write_status(
            SimulatedKind::ReplicaSet,
            Component::Controllers,
            &set,
            status,
        );
    }

    /// Returns the conditions of a ReplicaSet: `ReplicaFailure` if a Pod was refused in this turn.
    fn replica_failures(&self, set: &Stored, refused: Option<String>) -> Vec<Value> {
        let old = &set.lean()["status"];
        let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
        // The message of the first refusal stays, as upstream: the message of the next one names
        // another Pod, and writing it would be a change that asks for another turn at once.
        let is_reported = conditions.iter().any(|one| one["type"] == "ReplicaFailure");
        match refused {
            Some(message) if !is_reported => conditions.push(json!({
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": message, "lastTransitionTime": self.wall(),
            })),
            Some(_) => {}
            None => conditions.retain(|one| one["type"] != "ReplicaFailure"),
        }
        conditions
    }
}
