//! Words: the metrics of events.

use prometheus::{IntCounter, IntCounterVec, Registry, register_int_counter_vec_with_registry};

use crate::drop_reason::DropReason;
use crate::event_type::EventType;

/// The metrics of Events in one registry. Cheap to clone.
///
/// - `steersman_events_total{type}`: recorded events.
/// - `steersman_events_dropped_total{type, reason}`: recorded events that no Event on the server
///   shows (EVENT-2).
/// - `steersman_event_writes_total{verb, result}`: write requests; `verb` is `create` or `patch`, `result` is `ok` or
///   `error`.
#[derive(Clone, Debug)]
pub struct EventMetrics {
    normal: IntCounter,
    warning: IntCounter,
    dropped: IntCounterVec,
    writes: IntCounterVec,
}

impl EventMetrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let recorded = register_int_counter_vec_with_registry!(
            "steersman_events_total",
            "Recorded events, by type",
            &["type"],
            registry
        )?;
        let metrics = Self {
            normal: recorded.with_label_values(&[EventType::Normal.as_str()]),
            warning: recorded.with_label_values(&[EventType::Warning.as_str()]),
            dropped: register_int_counter_vec_with_registry!(
                "steersman_events_dropped_total",
                "Recorded events that no Event on the server shows, by type and reason",
                &["type", "reason"],
                registry
            )?,
            writes: register_int_counter_vec_with_registry!(
                "steersman_event_writes_total",
                "Requests that create or patch Events, by verb and result",
                &["verb", "result"],
                registry
            )?,
        };
        // The label values exist from the start, so that the first drop shows as an increase.
        for reason in DropReason::ALL {
            metrics.dropped(EventType::Normal, reason, 0);
            metrics.dropped(EventType::Warning, reason, 0);
        }
        for labels in [
            ["create", "ok"],
            ["create", "error"],
            ["patch", "ok"],
            ["patch", "error"],
        ] {
            metrics.writes.with_label_values(&labels);
        }
        Ok(metrics)
    }

    pub(crate) fn recorded(&self, event_type: EventType) {
        match event_type {
            EventType::Normal => self.normal.inc(),
            EventType::Warning => self.warning.inc(),
        }
    }

    pub(crate) fn dropped(&self, event_type: EventType, reason: DropReason, events: u64) {
        let labels = [event_type.as_str(), reason.as_str()];
        self.dropped.with_label_values(&labels).inc_by(events);
    }

    pub(crate) fn written(&self, verb: &str, is_ok: bool) {
        let result = if is_ok { "ok" } else { "error" };
        self.writes.with_label_values(&[verb, result]).inc();
    }
}
