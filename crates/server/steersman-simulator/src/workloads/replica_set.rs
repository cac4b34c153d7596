//! Machine: the ReplicaSet controller, which keeps the number of its Pods at `spec.replicas`.

use serde_json::{Value, json};
use steersman_store::Stored;

use crate::actions::turn_context::TurnContext;
use crate::state::facts::{cloned_items, count, number, put_counts};

impl TurnContext<'_> {
    /// Creates or deletes Pods of a ReplicaSet, and writes its status.
    pub(crate) fn reconcile_replica_set(&mut self, set: &Stored) {
        let terminating = set.is_terminating();
        if !terminating && self.claim_pods(set) {
            return;
        }
        let uid = set.meta("uid");
        let tally = self.cluster.tally(uid);
        let wanted = number(&set.lean()["spec"]["replicas"], 1);
        let mut refused = None;
        let mut created = 0;
        if !terminating && tally.active < wanted {
            let pod = Self::pod_of(set, &set.lean()["spec"]["template"]);
            for _ in 0..wanted - tally.active {
                if self.is_interrupted() {
                    break;
                }
                if let Err(refusal) = self.create_pod(set, pod.clone()) {
                    refused = Some(refusal.message);
                    break;
                }
                created += 1;
            }
        } else if !terminating && tally.active > wanted {
            let many = usize::try_from(tally.active - wanted).unwrap_or(0);
            for pod in self.pods_to_delete(set, many) {
                if self.is_interrupted() {
                    break;
                }
                self.delete_pod(set, &pod);
            }
        }
        let seconds = number(&set.lean()["spec"]["minReadySeconds"], 0);
        let available = if seconds > 0 {
            let own = self.cluster.own(uid);
            count(
                own.filter(|(_, pod)| self.is_available(pod, seconds))
                    .count(),
            )
        } else {
            tally.ready
        };
        let conditions = self.replica_failures(set, refused);
        // Pods that this reconcile created count already, so that the next reconcile need not write the status again.
        let active = tally.active + created;
        let mut status = json!({
            "replicas": active,
            "observedGeneration": set.lean()["metadata"]["generation"],
        });
        let positive = [
            ("fullyLabeledReplicas", active),
            ("readyReplicas", tally.ready),
            ("availableReplicas", available),
        ];
        put_counts(&mut status, &positive);
        status["terminatingReplicas"] = json!(tally.terminating);
        if !conditions.is_empty() {
            status["conditions"] = Value::Array(conditions);
        }
        self.write_status(set, status);
    }

    /// Returns the conditions of a ReplicaSet, with `ReplicaFailure` if the server `refused` a Pod in this reconcile.
    fn replica_failures(&self, set: &Stored, refused: Option<String>) -> Vec<Value> {
        let old = &set.lean()["status"];
        let mut conditions = cloned_items(&old["conditions"]);
        // As upstream, the first message stays, although each refusal is about another Pod.
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
