//! Handle: the metrics of webhooks.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The metrics of the webhooks of one registry, under the names of controller-runtime. Cheap to clone.
///
/// - `controller_runtime_webhook_requests_total{webhook, code}`: requests by path and code of the decision.
/// - `controller_runtime_webhook_latency_seconds{webhook}`: the time of requests.
/// - `controller_runtime_webhook_requests_in_flight{webhook}`: requests in progress.
/// - `controller_runtime_webhook_panics_total`: handlers that panicked.
#[derive(Clone, Debug)]
#[must_use]
pub struct WebhookMetrics {
    requests: IntCounterVec,
    latency: HistogramVec,
    in_flight: IntGaugeVec,
    panics: IntCounter,
}

/// Counts a request as in progress until it is dropped.
pub(crate) struct InFlight(IntGauge);

impl WebhookMetrics {
    /// Makes metrics that no registry shows.
    pub(crate) fn unregistered() -> prometheus::Result<Self> {
        let webhook = &["webhook"];
        Ok(Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "controller_runtime_webhook_requests_total",
                    "Admission requests, by webhook and code of the decision",
                ),
                &["webhook", "code"],
            )?,
            latency: HistogramVec::new(
                HistogramOpts::new(
                    "controller_runtime_webhook_latency_seconds",
                    "The time of admission requests, by webhook",
                ),
                webhook,
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "controller_runtime_webhook_requests_in_flight",
                    "Admission requests in progress, by webhook",
                ),
                webhook,
            )?,
            panics: IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Handlers of admission requests that panicked",
            )?,
        })
    }

    /// Makes the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self::unregistered()?;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn begin(&self, webhook: &str) -> InFlight {
        let gauge = self.in_flight.with_label_values(&[webhook]);
        gauge.inc();
        InFlight(gauge)
    }

    pub(crate) fn end(&self, webhook: &str, code: u16, time: Duration) {
        let latency = self.latency.with_label_values(&[webhook]);
        latency.observe(time.as_secs_f64());
        let code = code.to_string();
        self.requests.with_label_values(&[webhook, &code]).inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
