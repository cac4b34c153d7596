//! Machine: the scheduler and the kubelets, which bind, start, complete and terminate Pods.

use std::time::Duration;

use serde_json::json;
use steersman_registry::Subresource;
use steersman_store::Stored;

use super::owned_pods::set_condition;
use super::statuses::{self, ContainersState};
use crate::actions::event_correlator::EventContent;
use crate::actions::turn_context::TurnContext;
use crate::options::PodFailure;
use crate::state::facts::{
    Component, PodFacts, PodStage, SimulatedKind, cloned_items, condition, is_condition_true,
    items, number, text,
};
use crate::state::nodes;

impl TurnContext<'_> {
    /// Makes the next change in the life of a Pod if that change is due; otherwise queues the Pod for the due time.
    pub(crate) fn reconcile_pod(&mut self) {
        let Some(pod) = self.object() else { return };
        let Some(facts) = self.facts(&pod) else {
            return;
        };
        let failure = self.failure(&pod);
        let speed = self.settings.speed;
        match facts.stage {
            PodStage::Finished => {}
            PodStage::Unscheduled => {
                let duration = self.step_duration("schedule", speed.schedule, &pod);
                if self.is_due(facts, duration) {
                    self.schedule(&pod, failure);
                }
            }
            PodStage::Scheduled => self.start(&pod, facts, failure),
            PodStage::Running => self.run(&pod, facts, failure),
            PodStage::Terminating => self.end(&pod, facts, failure),
        }
    }

    /// Returns whether a Pod has been in its stage for `duration`. If not, queues the Pod for the end of that time.
    fn is_due(&mut self, facts: &PodFacts, duration: Duration) -> bool {
        let at = facts.since.saturating_add(duration);
        let due = at <= self.now.tick;
        if !due {
            self.requeue_at(at);
        }
        due
    }

    fn schedule(&mut self, pod: &Stored, failure: Option<PodFailure>) {
        let scheduler = text(&pod.lean()["spec"], "schedulerName");
        let mut gates = items(&pod.lean()["spec"]["schedulingGates"]);
        if gates.next().is_some() || !matches!(scheduler, "" | "default-scheduler") {
            return;
        }
        let waits = Some(pod).filter(|_| self.binds_volumes);
        let waits = waits.and_then(|pod| self.claim_wait_message(pod));
        let total = self.cluster.nodes.len();
        let chosen = match (failure, waits) {
            (Some(PodFailure::Unschedulable), _) => {
                let why = format!("{total} Insufficient cpu");
                Err(nodes::unschedulable(total, &why))
            }
            (_, Some(why)) => Err(nodes::unschedulable(total, &why)),
            _ => nodes::choose(&self.cluster.nodes, &self.cluster.pods_per_node, pod.lean()),
        };
        match chosen {
            Ok(node) => {
                if self.bind(pod, &node) {
                    let (namespace, name) = (&pod.namespace, &pod.name);
                    let message = format!("Successfully assigned {namespace}/{name} to {node}");
                    let content = EventContent::normal("Scheduled", message);
                    self.event(pod, &content.of_scheduler());
                }
            }
            Err(why) => {
                let known = condition(pod.lean(), "PodScheduled");
                if known.is_some_and(|one| one["status"] == "False" && one["message"] == why) {
                    return;
                }
                let content = EventContent::warning("FailedScheduling", why.as_str());
                self.event(pod, &content.of_scheduler());
                let state = (false, "Unschedulable", why.as_str());
                let condition =
                    statuses::condition(pod.lean(), "PodScheduled", state, &self.wall());
                let mut status = pod.lean()["status"].clone();
                let mut conditions = cloned_items(&status["conditions"]);
                set_condition(&mut conditions, condition);
                status["conditions"] = json!(conditions);
                self.write_status_as(Component::Scheduler, pod, status, None);
            }
        }
    }

    fn start(&mut self, pod: &Stored, facts: &PodFacts, failure: Option<PodFailure>) {
        let duration = self.step_duration("start", self.settings.speed.start, pod);
        if !self.is_due(facts, duration) {
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
        if let ContainersState::CrashLoop(_) | ContainersState::Unready = containers_state {
            self.memory.made_unready.insert(self.key.clone());
        }
        if containers_state == ContainersState::CrashLoop(0) {
            let wait = Duration::from_secs(statuses::crash_delay(0).unsigned_abs());
            self.requeue_after(wait);
        }
        self.report_containers(pod, containers_state);
        self.record_started(pod, containers_state);
    }

    fn run(&mut self, pod: &Stored, facts: &PodFacts, failure: Option<PodFailure>) {
        // The simulator only undoes its own changes of a Pod's status: a status that a client reported stays (PLAY-1).
        let made_unready = self.memory.made_unready.contains(self.key);
        match failure {
            Some(PodFailure::Failed) => {
                self.report_containers(pod, ContainersState::ended(pod.lean(), 1))
            }
            Some(PodFailure::CrashLoop) => self.crash(pod, facts),
            Some(PodFailure::NeverReady) => {
                if facts.ready {
                    self.memory.made_unready.insert(self.key.clone());
                    self.report_containers(pod, ContainersState::Unready);
                }
            }
            _ if made_unready => {
                self.memory.made_unready.remove(self.key);
                self.report_containers(pod, ContainersState::Running);
            }
            _ => {
                let ends = ends_by_itself(pod.lean(), facts);
                let duration = self.step_duration("complete", self.settings.speed.complete, pod);
                if ends && self.is_due(facts, duration) {
                    self.report_containers(pod, ContainersState::ended(pod.lean(), 0));
                }
            }
        }
    }

    fn crash(&mut self, pod: &Stored, facts: &PodFacts) {
        let crashing = statuses::waiting_reason(pod.lean()) == "CrashLoopBackOff";
        self.memory.made_unready.insert(self.key.clone());
        let wait = |count: i64| Duration::from_secs(statuses::crash_delay(count).unsigned_abs());
        let count = statuses::restarts(pod.lean());
        if !crashing {
            self.requeue_after(wait(count));
            self.report_containers(pod, ContainersState::CrashLoop(count));
            return self.record_back_off(pod);
        }
        // Restarted containers fail at once: the next failure is due when all restart delays since the start are over.
        let over = (0..=count.min(1_000)).map(wait);
        let at = over.fold(facts.since, Duration::saturating_add);
        if at > self.now.tick {
            return self.requeue_at(at);
        }
        self.requeue_after(wait(count + 1));
        self.report_containers(pod, ContainersState::CrashLoop(count + 1));
        self.record_started(pod, ContainersState::CrashLoop(count + 1));
    }

    fn end(&mut self, pod: &Stored, facts: &PodFacts, failure: Option<PodFailure>) {
        let grace = number(&pod.lean()["metadata"]["deletionGracePeriodSeconds"], 0);
        if grace == 0 {
            // Without a grace period, only finalizers keep the Pod in the store, and a kubelet removes no finalizer.
            return;
        }
        let runs = facts.ready || !text(&pod.lean()["status"], "podIP").is_empty();
        if runs && self.memory.stopping.insert(self.key.clone()) {
            self.record_stopping(pod);
        }
        let grace = Duration::from_secs(grace.unsigned_abs());
        let duration = self.step_duration("stop", self.settings.speed.stop, pod);
        let duration = match failure {
            Some(PodFailure::Unstoppable) => grace,
            _ => duration.min(grace),
        };
        if self.is_due(facts, duration) {
            let pods = self.kinds.of(SimulatedKind::Pod);
            if !facts.has_ended {
                // A kubelet reports how the containers ended before it deletes the Pod (PLAY-9).
                self.report_containers(pod, ContainersState::Killed);
            }
            self.delete(pods, pod, Some(0));
        }
    }

    /// Writes the status that a kubelet reports for a Pod when all its containers are in this state.
    fn report_containers(&mut self, pod: &Stored, containers_state: ContainersState) {
        let known = text(&pod.lean()["status"], "podIP");
        let own = if known.is_empty() {
            self.memory.addresses = self.memory.addresses.wrapping_add(1);
            statuses::pod_address(self.memory.addresses)
        } else {
            known.to_owned()
        };
        let name = text(&pod.lean()["spec"], "nodeName");
        let node = self.get(SimulatedKind::Node, "", name);
        let host = node.as_ref().and_then(|node| {
            let mut addresses = items(&node.lean()["status"]["addresses"]);
            addresses.find(|one| one["type"] == "InternalIP")
        });
        let host = host.map_or("172.18.0.1", |one| text(one, "address"));
        let own = if pod.lean()["spec"]["hostNetwork"] == true {
            host
        } else {
            &own
        };
        let status = statuses::status(pod.lean(), containers_state, (host, own), &self.wall());
        self.write_status_as(Component::Kubelet, pod, status, None);
    }

    /// Returns the server's wall time as objects have it, such as `2024-03-10T23:30:15Z`.
    pub(crate) fn wall(&self) -> String {
        steersman_registry::time_text(self.now.wall)
    }

    pub(crate) fn create_nodes(&mut self, nodes: u32) {
        let kind = self.kinds.of(SimulatedKind::Node);
        for number in 1..=nodes {
            let name = format!("node-{number}");
            let node = match self.get(SimulatedKind::Node, "", &name) {
                Some(node) if is_condition_true(node.lean(), "Ready") => continue,
                Some(node) => Ok(node),
                None => self.create(kind, "", nodes::new_node(&name)),
            };
            let Ok(node) = node else { continue };
            let mut object = node.lean().clone();
            object["status"] = nodes::node_status(number, &self.wall());
            let updated = self.update(kind, (Component::Kubelet, Subresource::Status), object);
            let Some(node) = updated else { continue };
            // The server gives each new Node the taint `not-ready`. This Node is ready, so the taint is removed.
            self.edit(SimulatedKind::Node, &node, |node| {
                if let Some(spec) = node["spec"].as_object_mut() {
                    spec.remove("taints");
                }
            });
        }
    }
}

fn ends_by_itself(pod: &serde_json::Value, facts: &PodFacts) -> bool {
    let job = facts.controller.as_ref().and_then(|own| own.kind) == Some(SimulatedKind::Job);
    job || text(&pod["spec"], "restartPolicy") != "Always"
}
