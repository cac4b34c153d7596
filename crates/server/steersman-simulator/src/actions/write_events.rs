//! Machine: writes the Events of the controllers, the scheduler and the kubelets, through the registry's verbs.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_registry::Subresource;
use steersman_store::Stored;

use super::event_correlator::{EVENT_TTL, EventContent};
use super::turn_context::TurnContext;
use crate::state::facts::{Component, name_of, object_reference, text, time};

impl TurnContext<'_> {
    /// Writes an Event of type `Normal` about an object, as the controller of the reconciled object.
    pub(crate) fn report(
        &mut self,
        about: &Stored,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.event(about, &EventContent::normal(reason, message));
    }

    /// Writes an Event of type `Warning` about an object, as the controller of the reconciled object.
    pub(crate) fn warn(
        &mut self,
        about: &Stored,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.event(about, &EventContent::warning(reason, message));
    }

    /// Writes an Event about an object: creates it, or raises the count of the existing Event with the same message.
    pub(crate) fn event(&mut self, about: &Stored, content: &EventContent) {
        if !self.writes_events {
            return;
        }
        let uid: Arc<str> = about.meta("uid").into();
        let tick = self.now.tick;
        let component = match content.by {
            Component::Controllers => self.key.kind.component(),
            Component::Scheduler => "default-scheduler",
            Component::Kubelet => "kubelet",
        };
        let recorder = &mut self.memory.recorder;
        let correlated = recorder.correlate(&uid, component, content, tick);
        let Some((message, counted)) = correlated else {
            return;
        };
        let kind = &self.kinds.events;
        let name = recorder.name_of(&counted);
        let known = name.and_then(|name| self.stored(kind, &about.namespace, &name));
        let written = if let Some(known) = known {
            let mut event = known.lean().clone();
            event["count"] = json!(event["count"].as_i64().unwrap_or(0).saturating_add(1));
            event["lastTimestamp"] = json!(self.wall());
            event["message"] = json!(message);
            self.update(kind, (content.by, Subresource::Main), event)
        } else {
            let event = self.new_event(about, component, content, &message);
            let created = self.create_as(content.by, kind, &about.namespace, event);
            created.ok()
        };
        if let Some(written) = written {
            let recorder = &mut self.memory.recorder;
            recorder.remember(&counted, name_of(&written), tick);
        }
    }

    fn new_event(
        &mut self,
        about: &Stored,
        component: &str,
        content: &EventContent,
        message: &str,
    ) -> Value {
        let nanos = u64::try_from(self.now.wall.as_nanosecond()).unwrap_or_default();
        let number = nanos.wrapping_add(self.memory.recorder.next_serial());
        let mut object = object_reference(about);
        if !content.field.is_empty() {
            object["fieldPath"] = json!(content.field);
        }
        let host = match content.by {
            Component::Kubelet => text(&about.lean()["spec"], "nodeName"),
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
        if content.by == Component::Scheduler {
            // The scheduler uses the API group `events.k8s.io`: its Events have one time, `eventTime`.
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

    /// Deletes Events older than `EVENT_TTL`, up to the write limit; later calls delete the rest.
    pub(crate) fn delete_old_events(&mut self) {
        let kind = &self.kinds.events;
        while !self.is_at_write_limit() {
            let Some((namespace, name)) = self.memory.recorder.next_old(self.now.tick) else {
                return;
            };
            let Some(event) = self.stored(kind, &namespace, &name) else {
                continue;
            };
            let last = time(&event.lean()["lastTimestamp"]);
            let last = last.or_else(|| time(&event.lean()["eventTime"]));
            let age = last.map_or(i64::MAX, |last| self.seconds_since(last));
            // An Event that was repeated after this entry was queued is younger; the repetition queued a later entry.
            if age.unsigned_abs() >= EVENT_TTL.as_secs() {
                self.delete(kind, &event, None);
            }
        }
    }
}
