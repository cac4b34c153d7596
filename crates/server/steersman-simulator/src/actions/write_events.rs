//! Machine: writes Events about the simulator's work, through the registry's verbs.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_registry::Subresource;
use steersman_store::Stored;

use super::event_correlator::{EVENT_TTL, EventContent, EventSource};
use super::turn_context::{Component, TurnContext};
use crate::state::facts::{text, time};

impl TurnContext<'_> {
    /// Records an Event about an object: creates one, or counts it in an existing one.
    pub(crate) fn event(&mut self, about: &Stored, source: EventSource, content: &EventContent) {
        if !self.writes_events {
            return;
        }
        let uid: Arc<str> = about.meta("uid").into();
        let tick = self.now.tick;
        let recorder = &mut self.memory.recorder;
        let Some((message, counted)) = recorder.correlate(&uid, source, content, tick) else {
            return;
        };
        let kind = Arc::clone(&self.kinds.events);
        let name = recorder.name_of(&counted);
        let known = name.as_ref().and_then(|name| {
            let storage = &kind.storage;
            self.registry.store().get(storage, &about.namespace, name)
        });
        let written = if let Some(known) = known.cloned() {
            let mut event = known.lean().clone();
            event["count"] = json!(event["count"].as_i64().unwrap_or(0).saturating_add(1));
            event["lastTimestamp"] = json!(self.wall());
            event["message"] = json!(message);
            self.update(&kind, (component_of(source), Subresource::Main), event)
        } else {
            let event = self.new_event(about, source, content, &message);
            self.create_as(component_of(source), &kind, &about.namespace, event)
                .ok()
        };
        let Some(written) = written else {
            return;
        };
        let name = (Arc::clone(&written.namespace), Arc::clone(&written.name));
        self.memory.recorder.remember(&counted, name, tick);
    }

    fn new_event(
        &mut self,
        about: &Stored,
        source: EventSource,
        content: &EventContent,
        message: &str,
    ) -> Value {
        let nanos = u64::try_from(self.now.wall.as_nanosecond()).unwrap_or_default();
        let number = nanos.wrapping_add(self.memory.recorder.next_serial());
        let mut object = json!({
            "apiVersion": about.lean()["apiVersion"],
            "kind": about.lean()["kind"],
            "name": *about.name,
            "namespace": *about.namespace,
            "uid": about.meta("uid"),
            "resourceVersion": about.revision.to_string(),
        });
        if !content.field.is_empty() {
            object["fieldPath"] = json!(content.field);
        }
        let component = source.component();
        let host = match source {
            EventSource::Kubelet => text(&about.lean()["spec"], "nodeName"),
            _ => "",
        };
        let mut event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{number:016x}", about.name),
                "namespace": *about.namespace,
            },
            "involvedObject": object,
            "reason": content.reason,
            "message": message,
            "type": if content.warning { "Warning" } else { "Normal" },
            "reportingComponent": component,
            "reportingInstance": host,
        });
        let now = self.wall();
        if source == EventSource::Scheduler {
            // The scheduler writes Events of `events.k8s.io`, which have a single time.
            event["eventTime"] = json!(format!("{:.6}", self.now.wall));
            event["action"] = json!(match content.reason {
                "Scheduled" => "Binding",
                _ => "Scheduling",
            });
            event["reportingInstance"] = json!("default-scheduler-control-plane");
        } else {
            let mut from = json!({"component": component});
            if !host.is_empty() {
                from["host"] = json!(host);
            }
            event["source"] = from;
            event["count"] = json!(1);
            event["firstTimestamp"] = json!(now);
            event["lastTimestamp"] = json!(now);
        }
        event
    }

    /// Deletes old Events, as many as the turn's writes allow.
    pub(crate) fn delete_old_events(&mut self) {
        let kind = Arc::clone(&self.kinds.events);
        while !self.is_at_write_limit() {
            let Some((namespace, name)) = self.memory.recorder.next_old(self.now.tick) else {
                return;
            };
            let event = self.registry.store().get(&kind.storage, &namespace, &name);
            let Some(event) = event.cloned() else {
                continue;
            };
            let last = time(&event.lean()["lastTimestamp"]);
            let last = last.or_else(|| time(&event.lean()["eventTime"]));
            let now = self.now.wall.as_second();
            let age = last.map_or(i64::MAX, |last| now.saturating_sub(last.as_second()));
            // An Event that was counted again has a later entry in the queue.
            if age.unsigned_abs() >= EVENT_TTL.as_secs() {
                self.delete(&kind, &event, None);
            }
        }
    }
}

/// Returns the component that writes the Events of a source.
fn component_of(source: EventSource) -> Component {
    match source {
        EventSource::Scheduler => Component::Scheduler,
        EventSource::Kubelet => Component::Kubelet,
        _ => Component::Controllers,
    }
}
