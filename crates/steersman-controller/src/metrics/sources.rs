//! Words: the metrics of the sources of one controller.

use prometheus::{IntCounterVec, Opts, Registry};
use steersman_object::Kind;

/// The metrics of the sources of one controller. They always count; a registry, if there is one, shows them.
#[derive(Debug, Clone)]
pub(crate) struct SourceMetrics {
    handler_errors: IntCounterVec,
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
        };
        if let Some(registry) = registry {
            registry.register(Box::new(metrics.handler_errors.clone()))?;
        }
        Ok(metrics)
    }

    pub(crate) fn handler_failed(&self, kind: &Kind) {
        let errors = &self.handler_errors;
        errors.with_label_values(&[&kind.to_string()]).inc();
    }
}
