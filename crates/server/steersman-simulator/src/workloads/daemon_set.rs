//! Machine: the DaemonSet controller, which runs one Pod on every node that fits the Pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::revisions;
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    PodStage, SimulatedKind, cloned_items, count, max_unavailable, number, put_counts, stage_of,
    text,
};
use crate::state::nodes::UNSCHEDULABLE;

/// The taints, with their effects, that each Pod of a DaemonSet tolerates even if the Pod template does not.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
];

#[derive(Debug, Default)]
struct DaemonCounts {
    scheduled: i64,
    ready: i64,
    available: i64,
    updated: i64,
    misscheduled: i64,
}

/// The Pods of a DaemonSet by node name, and the spec and template hash for new Pods.
struct Daemons {
    hash: String,
    spec: Value,
    pods: BTreeMap<String, Vec<Arc<Stored>>>,
}

impl TurnContext<'_> {
    /// Creates missing Pods and deletes surplus ones, replaces Pods of an old template, and writes the status.
    pub(crate) fn reconcile_daemon_set(&mut self, set: &Stored) {
        let terminating = set.is_terminating();
        if !terminating && self.claim_pods(set) {
            return;
        }
        let revision = self.revision(set);
        let mut spec = set.lean()["spec"]["template"]["spec"].clone();
        tolerate(&mut spec);
        let cluster = self.cluster;
        let nodes = cluster.nodes.iter();
        let nodes = nodes.filter(|(_, node)| node.refuses(&spec).is_none());
        let nodes: Vec<&Arc<str>> = nodes.map(|(name, _)| name).collect();
        let mut daemons = Daemons {
            hash: revision.hash,
            spec,
            pods: BTreeMap::new(),
        };
        for pod in self.controlled(self.kinds.of(SimulatedKind::Pod), set.meta("uid")) {
            let node = node_of(pod.lean()).to_owned();
            daemons.pods.entry(node).or_default().push(pod);
        }
        let mut numbers = DaemonCounts::default();
        let mut replaceable = Vec::new();
        for node in &nodes {
            let Some(pod) = self.daemon(set, node, &mut daemons) else {
                continue;
            };
            numbers.scheduled += 1;
            let facts = self.facts(&pod);
            numbers.ready += i64::from(facts.is_some_and(|facts| facts.ready));
            let seconds = number(&set.lean()["spec"]["minReadySeconds"], 0);
            let well = facts.is_some_and(|facts| self.is_available(facts, seconds));
            numbers.available += i64::from(well);
            if revisions::hash_of(pod.lean()) == daemons.hash {
                numbers.updated += 1;
            } else {
                replaceable.push((well, pod));
            }
        }
        for pod in daemons.pods.into_values().flatten() {
            let stage = stage_of(pod.lean());
            numbers.misscheduled += i64::from(stage.is_active());
            if terminating || stage == PodStage::Terminating {
                continue;
            }
            if self.is_at_write_limit() {
                self.requeue();
            } else {
                self.delete_pod(set, &pod);
            }
        }
        let wanted = count(nodes.len());
        if !terminating {
            self.replace(set, replaceable, (wanted, wanted - numbers.available));
        }
        let mut status = json!({
            "currentNumberScheduled": numbers.scheduled,
            "numberMisscheduled": numbers.misscheduled,
            "desiredNumberScheduled": wanted,
            "numberReady": numbers.ready,
            "observedGeneration": set.lean()["metadata"]["generation"],
        });
        let positive = [
            ("updatedNumberScheduled", numbers.updated),
            ("numberAvailable", numbers.available),
            ("numberUnavailable", wanted - numbers.available),
        ];
        put_counts(&mut status, &positive);
        self.write_status(set, status);
    }

    /// Returns the active Pod of a node. Without such a Pod, creates a Pod for the next reconcile, and returns `None`.
    fn daemon(&mut self, set: &Stored, node: &str, daemons: &mut Daemons) -> Option<Arc<Stored>> {
        let deleted = set.is_terminating();
        let (mut live, mut terminating) = (None, deleted);
        for pod in daemons.pods.remove(node).unwrap_or_default() {
            match stage_of(pod.lean()) {
                PodStage::Terminating => terminating = true,
                PodStage::Finished if deleted || self.is_at_write_limit() => {}
                PodStage::Finished => {
                    let there = format!("pod {}/{} on node {node}", pod.namespace, pod.name);
                    if text(&pod.lean()["status"], "phase") == "Failed" {
                        let message = format!("Found failed daemon {there}, will try to kill it");
                        self.warn(set, "FailedDaemonPod", message);
                    } else {
                        let message =
                            format!("Found succeeded daemon {there}, will try to delete it");
                        self.report(set, "SucceededDaemonPod", message);
                    }
                    self.delete_pod(set, &pod);
                }
                PodStage::Unscheduled | PodStage::Scheduled | PodStage::Running => live = Some(pod),
            }
        }
        if live.is_none() && !terminating && self.is_at_write_limit() {
            self.requeue();
        } else if live.is_none() && !terminating {
            let mut pod = Self::pod_of(set, &set.lean()["spec"]["template"]);
            pod["spec"] = daemons.spec.clone();
            label_pod(&mut pod, &daemons.hash, set);
            pin(&mut pod["spec"], node);
            // If the server refused the Pod, `create_pod` has queued the DaemonSet for another attempt.
            let _ = self.create_pod(set, pod);
        }
        live
    }

    /// Deletes the Pods of older templates: first the unavailable ones, then available ones up to `maxUnavailable`.
    fn replace(
        &mut self,
        set: &Stored,
        mut old: Vec<(bool, Arc<Stored>)>,
        (wanted, down): (i64, i64),
    ) {
        let strategy = &set.lean()["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return;
        }
        let most = max_unavailable(&strategy["rollingUpdate"], wanted);
        old.sort_by_key(|(well, _)| *well);
        let mut down = down;
        for (well, pod) in old {
            if well && down >= most {
                break;
            }
            if self.is_interrupted() {
                return;
            }
            down += i64::from(well);
            self.delete_pod(set, &pod);
        }
    }
}

fn label_pod(pod: &mut Value, hash: &str, set: &Stored) {
    const GENERATION: &str = "deprecated.daemonset.template.generation";
    let generation = set.lean()["metadata"]["annotations"][GENERATION].as_str();
    let labels = &mut pod["metadata"]["labels"];
    labels[revisions::HASH] = json!(hash);
    labels["pod-template-generation"] = json!(generation.unwrap_or("1"));
}

fn tolerate(spec: &mut Value) {
    let mut list = cloned_items(&spec["tolerations"]);
    for (key, effect) in TOLERATED {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !list.contains(&toleration) {
            list.push(toleration);
        }
    }
    spec["tolerations"] = Value::Array(list);
}

/// Adds a node affinity to the spec of a Pod, so that it fits only this node.
fn pin(spec: &mut Value, node: &str) {
    let term = json!({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [node]},
    ]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [term]});
}

/// Returns the name of the node to which a DaemonSet's Pod is bound, or else of the node in its node affinity.
fn node_of(pod: &Value) -> &str {
    let placed = text(&pod["spec"], "nodeName");
    if !placed.is_empty() {
        return placed;
    }
    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let name = &required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
    name.as_str().unwrap_or_default()
}
