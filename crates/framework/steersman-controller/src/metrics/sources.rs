//! Words: the metrics of one controller's asynchronous handlers, polls and periodic sources.

use prometheus::{IntCounter, IntCounterVec};
use steersman_object::Kind;

use super::Registrar;

#[derive(Debug, Clone)]
pub(crate) struct SourceMetrics {
    handler_errors: IntCounterVec,
    polls: IntCounterVec,
    periodic_errors: IntCounter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// The poll returned another state than its previous call, so the object is requested.
    Changed,
    /// The poll returned the same state as its previous call, so no request is made.
    Unchanged,
    /// The call returned an error, panicked, or took longer than its limit, so no request is made.
    Error,
}

impl SourceMetrics {
    pub(crate) fn new(registrar: &Registrar<'_>) -> Result<Self, prometheus::Error> {
        Ok(Self {
            handler_errors: registrar.counters(
                "steersman_controller_handler_errors_total",
                "Events lost to an error of an asynchronous function, by kind of the watch.",
                &["name"],
            )?,
            polls: registrar.counters(
                "steersman_controller_polls_total",
                "Calls of polls, by kind of the object and result.",
                &["name", "result"],
            )?,
            periodic_errors: registrar.counter(
                "steersman_controller_periodic_errors_total",
                "Calls of functions of periodic sources that failed.",
            )?,
        })
    }

    pub(crate) fn handler_failed(&self, kind: &Kind) {
        let errors = &self.handler_errors;
        errors.with_label_values(&[&kind.to_string()]).inc();
    }

    pub(crate) fn periodic_failed(&self) {
        self.periodic_errors.inc();
    }

    pub(crate) fn polled(&self, kind: &Kind, outcome: PollOutcome) {
        let labels = [&*kind.to_string(), outcome.as_str()];
        self.polls.with_label_values(&labels).inc();
    }
}

impl PollOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Error => "error",
        }
    }
}
