//! Machine: the Events of a kubelet about the containers of a Pod.

use steersman_store::Stored;

use super::statuses::ContainersState;
use crate::actions::event_correlator::EventContent;
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{items, text};

impl TurnContext<'_> {
    /// Writes the Events that containers were started, or why they failed to start.
    pub(crate) fn record_started(&mut self, pod: &Stored, containers_state: ContainersState) {
        if !self.writes_events || containers_state == ContainersState::Creating {
            return;
        }
        for container in items(&pod.lean()["spec"]["containers"]) {
            let (name, image) = (text(container, "name"), text(container, "image"));
            if containers_state == ContainersState::ImagePull {
                for content in refused_image(image) {
                    self.event(pod, &content.of_container(name));
                }
                continue;
            }
            let there = format!(
                "Container image \"{image}\" already present on machine and can be accessed by the pod"
            );
            for (reason, message) in [
                ("Pulled", there.as_str()),
                ("Created", "Container created"),
                ("Started", "Container started"),
            ] {
                let content = EventContent::normal(reason, message);
                self.event(pod, &content.of_container(name));
            }
        }
        if matches!(containers_state, ContainersState::CrashLoop(_)) {
            self.record_back_off(pod);
        }
    }

    pub(crate) fn record_back_off(&mut self, pod: &Stored) {
        for container in items(&pod.lean()["spec"]["containers"]) {
            let name = text(container, "name");
            let message = format!(
                "Back-off restarting failed container {name} in pod {}_{}({})",
                pod.name,
                pod.namespace,
                pod.meta("uid")
            );
            let content = EventContent::warning("BackOff", message);
            self.event(pod, &content.of_container(name));
        }
    }

    pub(crate) fn record_stopping(&mut self, pod: &Stored) {
        for container in items(&pod.lean()["spec"]["containers"]) {
            let name = text(container, "name");
            let content = EventContent::normal("Killing", format!("Stopping container {name}"));
            self.event(pod, &content.of_container(name));
        }
    }
}

fn refused_image(image: &str) -> [EventContent; 5] {
    let why = format!("failed to resolve reference \"{image}\": {image}: not found");
    [
        EventContent::normal("Pulling", format!("Pulling image \"{image}\"")),
        EventContent::warning(
            "Failed",
            format!("Failed to pull image \"{image}\": rpc error: code = NotFound desc = {why}"),
        ),
        EventContent::warning("Failed", "Error: ErrImagePull"),
        EventContent::normal("BackOff", format!("Back-off pulling image \"{image}\"")),
        EventContent::warning("Failed", "Error: ImagePullBackOff"),
    ]
}
