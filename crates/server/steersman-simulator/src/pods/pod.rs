//! Machine: the scheduler and the kubelets: binds, starts, completes and terminates Pods.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steersman_registry::Subresource;
use steersman_store::Stored;

use super::statuses::{self, ContainersState};
use crate::actions::event_correlator::{EventContent, EventSource};
use crate::actions::turn_context::{Component, TurnContext};
use crate::options::PodFailure;
use crate::state::facts::{PodFacts, PodStage, SimulatedKey, SimulatedKind, number, text};
use crate::state::nodes;

impl TurnContext<'_> {
    /// Takes the step that is due for a Pod, or requeues the Pod for the time when one will be.
    pub(crate) fn reconcile_pod(&mut self, key: &SimulatedKey) {
        let Some(pod) = self.get(SimulatedKind::Pod, &key.namespace, &key.name) else {
            return;
        };
        let Some(facts) = self
            .cluster
            .pods
            .get(&(Arc::clone(&key.namespace), Arc::clone(&key.name)))
        else {
            return;
        };
        let facts = facts.clone();
        let failure = self.failure(&pod);
        let speed = self.settings.speed;
        match facts.stage {
            PodStage::Finished => {}
            PodStage::Unscheduled => {
                let duration = self.step_duration("schedule", speed.schedule, &pod);
                if self.is_due(key, &facts, duration) {
                    self.schedule(&pod, failure);
                }
            }
            PodStage::Scheduled => self.start(key, &pod, &facts, failure),
            PodStage::Running => self.run(key, &pod, &facts, failure),
            PodStage::Terminating => self.end(key, &pod, &facts, failure),
        }
    }

    /// Returns whether `duration` has passed since the Pod reached its stage. If not, requeues the Pod
    /// at that time.
    fn is_due(&mut self, key: &SimulatedKey, facts: &PodFacts, duration: Duration) -> bool {
        let at = facts.since.saturating_add(duration);
        let due = at <= self.now.tick;
        if !due {
            self.requeue_at(key.clone(), at);
        }
        due
    }

    fn schedule(&mut self, pod: &Stored, failure: Option<PodFailure>) {
        let scheduler = text(&pod.lean()["spec"], "schedulerName");
        let gated = pod.lean()["spec"]["schedulingGates"].as_array();
        if gated.is_some_and(|gates| !gates.is_empty())
            || !matches!(scheduler, "" | "default-scheduler")
        {
            return;
        }
        let waits = if self.binds_volumes {
            self.claim_wait_message(pod)
        } else {
            None
        };
        let total = self.cluster.nodes.len();
        let chosen = match (failure, waits) {
            (Some(PodFailure::Unschedulable), _) => Err(nodes::Unschedulable(format!(
                "0/{total} nodes are available: {total} Insufficient cpu."
            ))),
            (_, Some(why)) => Err(nodes::Unschedulable(format!(
                "0/{total} nodes are available: {why}."
            ))),
            _ => nodes::choose(&self.cluster.nodes, &self.cluster.pods_per_node, pod.lean()),
        };
        match chosen {
            Ok(node) => {
                if self.bind(pod, &node) {
                    let (namespace, name) = (&pod.namespace, &pod.name);
                    let message = format!("Successfully assigned {namespace}/{name} to {node}");
                    let content = EventContent::normal("Scheduled", message);
                    self.event(pod, EventSource::Scheduler, &content);
                }
            }
            Err(nodes::Unschedulable(why)) => {
                let since = pod.lean()["status"]["conditions"].as_array();
                let mut since = since.into_iter().flatten();
                let known =
                    since.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
                if known.is_some_and(|one| one["message"] == why) {
                    return;
                }
                let content = EventContent::warning("FailedScheduling", why.clone());
                self.event(pod, EventSource::Scheduler, &content);
                let mut status = pod.lean()["status"].clone();
                let time = known.map_or_else(
                    || json!(self.wall()),
                    |one| one["lastTransitionTime"].clone(),
                );
                let mut condition = json!({
                    "type": "PodScheduled", "status": "False", "lastProbeTime": null,
                    "lastTransitionTime": time, "reason": "Unschedulable", "message": why,
                });
                let generation = &pod.lean()["metadata"]["generation"];
                if !generation.is_null() {
                    condition["observedGeneration"] = generation.clone();
                }
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let others = conditions
                    .into_iter()
                    .filter(|one| one["type"] != "PodScheduled");
                let conditions: Vec<_> = others.chain([condition]).collect();
                status["conditions"] = json!(conditions);
                self.write_status(SimulatedKind::Pod, Component::Scheduler, pod, status);
            }
        }
    }

    fn start(
        &mut self,
        key: &SimulatedKey,
        pod: &Stored,
        facts: &PodFacts,
        failure: Option<PodFailure>,
    ) {
        let duration = self.step_duration("start", self.settings.speed.start, pod);
        if !self.is_due(key, facts, duration) {
            if pod.lean()["status"]["containerStatuses"].is_null() {
                self.report_containers(pod, ContainersState::Creating);
            }
            return;
        }
        let containers_state = match failure {
            Some(PodFailure::ImagePull) => ContainersState::ImagePull,
            Some(PodFailure::CrashLoop) => ContainersState::CrashLoop(0),
            Some(PodFailure::Failed) => ContainersState::ended(pod.lean(), 1),
            Some(PodFailure::NeverReady) => ContainersState::Unready,
            Some(PodFailure::Unschedulable | PodFailure::Unstoppable) | None => {
                ContainersState::Running
            }
        };
        if containers_state == ContainersState::ImagePull
            && statuses::waiting_reason(pod.lean()) == "ImagePullBackOff"
        {
            return;
        }
        if matches!(
            containers_state,
            ContainersState::CrashLoop(_) | ContainersState::Unready
        ) {
            self.memory.made_unready.insert(key.clone());
        }
        if containers_state == ContainersState::CrashLoop(0) {
            let wait = Duration::from_secs(statuses::crash_delay(0).unsigned_abs());
            self.requeue_at(key.clone(), self.now.tick.saturating_add(wait));
        }
        self.report_containers(pod, containers_state);
        self.record_started(pod, containers_state);
    }

    fn run(
        &mut self,
        key: &SimulatedKey,
        pod: &Stored,
        facts: &PodFacts,
        failure: Option<PodFailure>,
    ) {
        // The simulator only undoes its own changes to a Pod; statuses that a client reports stay.
        let made_unready = self.memory.made_unready.contains(key);
        match failure {
            Some(PodFailure::Failed) => {
                self.report_containers(pod, ContainersState::ended(pod.lean(), 1))
            }
            Some(PodFailure::CrashLoop) => self.crash(key, pod, facts),
            Some(PodFailure::NeverReady) => {
                if facts.ready {
                    self.memory.made_unready.insert(key.clone());
                    self.report_containers(pod, ContainersState::Unready);
                }
            }
            _ if made_unready => {
                self.memory.made_unready.remove(key);
                self.report_containers(pod, ContainersState::Running);
            }
            _ => {
                let ends = ends_by_itself(pod.lean(), facts);
                let duration = self.step_duration("complete", self.settings.speed.complete, pod);
                if ends && self.is_due(key, facts, duration) {
                    self.report_containers(pod, ContainersState::ended(pod.lean(), 0));
                }
            }
        }
    }

    fn crash(&mut self, key: &SimulatedKey, pod: &Stored, facts: &PodFacts) {
        let crashing = statuses::waiting_reason(pod.lean()) == "CrashLoopBackOff";
        self.memory.made_unready.insert(key.clone());
        let wait = |count: i64| Duration::from_secs(statuses::crash_delay(count).unsigned_abs());
        let count = statuses::restarts(pod.lean());
        if !crashing {
            self.requeue_at(key.clone(), self.now.tick.saturating_add(wait(count)));
            self.report_containers(pod, ContainersState::CrashLoop(count));
            return self.record_back_off(pod);
        }
        // The next failure happens when all delays up to now are over.
        let over = (0..=count.min(1_000)).map(wait);
        let at = over.fold(facts.since, Duration::saturating_add);
        if at > self.now.tick {
            return self.requeue_at(key.clone(), at);
        }
        self.requeue_at(key.clone(), self.now.tick.saturating_add(wait(count + 1)));
        self.report_containers(pod, ContainersState::CrashLoop(count + 1));
        self.record_started(pod, ContainersState::CrashLoop(count + 1));
    }

    fn end(
        &mut self,
        key: &SimulatedKey,
        pod: &Stored,
        facts: &PodFacts,
        failure: Option<PodFailure>,
    ) {
        let grace = number(&pod.lean()["metadata"]["deletionGracePeriodSeconds"], 0);
        if grace == 0 {
            // Finalizers hold the Pod; a kubelet does not touch them.
            return;
        }
        let runs = facts.ready || !text(&pod.lean()["status"], "podIP").is_empty();
        if runs && self.memory.stopping.insert(key.clone()) {
            self.record_stopping(pod);
        }
        let grace = Duration::from_secs(grace.unsigned_abs());
        let duration = self.step_duration("stop", self.settings.speed.stop, pod);
        let duration = match failure {
            Some(PodFailure::Unstoppable) => grace,
            _ => duration.min(grace),
        };
        if self.is_due(key, facts, duration) {
            let pods = Arc::clone(self.kinds.of(SimulatedKind::Pod));
            if !matches!(text(&pod.lean()["status"], "phase"), "Succeeded" | "Failed") {
                // A kubelet reports how a Pod ended before it deletes the Pod (PLAY-9).
                self.report_containers(pod, ContainersState::Killed);
            }
            self.delete(&pods, pod, Some(0));
        }
    }

    /// Writes the status that a kubelet reports for the Pod's containers.
    fn report_containers(&mut self, pod: &Stored, containers_state: ContainersState) {
        let known = text(&pod.lean()["status"], "podIP");
        let own = if known.is_empty() {
            self.memory.addresses = self.memory.addresses.wrapping_add(1);
            statuses::pod_address(self.memory.addresses)
        } else {
            known.to_owned()
        };
        let node = self.get(
            SimulatedKind::Node,
            "",
            text(&pod.lean()["spec"], "nodeName"),
        );
        let addresses = node
            .as_ref()
            .and_then(|node| node.lean()["status"]["addresses"].as_array());
        let host = addresses
            .into_iter()
            .flatten()
            .find(|one| one["type"] == "InternalIP")
            .map_or("172.18.0.1", |one| text(one, "address"));
        let own = if pod.lean()["spec"]["hostNetwork"] == true {
            host
        } else {
            &own
        };
        let status = statuses::status(pod.lean(), containers_state, (host, own), &self.wall());
        self.write_status(SimulatedKind::Pod, Component::Kubelet, pod, status);
    }

    /// Returns the wall time as objects write it.
    pub(crate) fn wall(&self) -> String {
        steersman_registry::time_text(self.now.wall)
    }

    /// Creates the nodes that were asked for.
    pub(crate) fn create_nodes(&mut self, nodes: u32) {
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Node));
        for number in 1..=nodes {
            let name = format!("node-{number}");
            let node = match self.get(SimulatedKind::Node, "", &name) {
                Some(node) if nodes::is_ready(node.lean()) => continue,
                Some(node) => node,
                None => match self.create(&kind, "", nodes::new_node(&name)) {
                    Ok(node) => node,
                    Err(_) => continue,
                },
            };
            let mut object = node.lean().clone();
            object["status"] = nodes::node_status(number, &self.wall());
            let Some(node) = self.update(&kind, (Component::Kubelet, Subresource::Status), object)
            else {
                continue;
            };
            // The node is ready, so its not-ready taint is removed.
            self.edit(SimulatedKind::Node, &node, |node| {
                if let Some(spec) = node["spec"].as_object_mut() {
                    spec.remove("taints");
                }
            });
        }
    }
}

/// Returns whether a Pod is meant to complete.
fn ends_by_itself(pod: &serde_json::Value, facts: &PodFacts) -> bool {
    let job = facts.controller.as_ref().and_then(|own| own.kind) == Some(SimulatedKind::Job);
    job || text(&pod["spec"], "restartPolicy") != "Always"
}
