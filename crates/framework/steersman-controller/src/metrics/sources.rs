//! Words: the metrics of the sources of one controller.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use steersman_object::Kind;

/// The metrics of the sources of one controller. They always count; a registry, if there is one, shows them.
#[derive(Debug, Clone)]
pub(crate) struct SourceMetrics {
    handler_errors: IntCounterVec,
    polls: IntCounterVec,
    periodic_errors: IntCounter,
}

/// How the call of a poll ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// The state differs from the one before.
    Changed,
    /// The state equals the one before.
    Unchanged,
    /// The call returned an error, panicked, or took longer than its limit.
    Error,
}

impl SourceMetrics {
    pub(crate) fn new(
        controller: &str,
        registry: Option<&Registry>,
    ) -> Result<Self, prometheus::Error> {
        let opts = |metric: &str, help: &str| {
            Opts::new(format!("steersman_controller_{metric}"), help)
                .const_label("controller", controller)
        };
        let metrics = Self {
            handler_errors: IntCounterVec::new(
                opts(
                    "handler_errors_total",
                    "Events lost to an error of an asynchronous function, by kind of the watch.",
                ),
                &["name"],
            )?,
            polls: IntCounterVec::new(
                opts(
                    "polls_total",
                    "Calls of polls, by kind of the object and result.",
                ),
                &["name", "result"],
            )?,
            periodic_errors: IntCounter::with_opts(opts(
                "periodic_errors_total",
                "Calls of functions of periodic sources that failed.",
            ))?,
        };
        if let Some(registry) = registry {
            registry.register(Box::new(metrics.handler_errors.clone()))?;
            registry.register(Box::new(metrics.polls.clone()))?;
            registry.register(Box::new(metrics.periodic_errors.clone()))?;
        }
        Ok(metrics)
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
