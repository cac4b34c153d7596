//! Handle: the metrics of webhooks.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_vec_with_registry,
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

/// The metrics with the labels of one webhook, looked up once.
pub(crate) struct OneWebhookMetrics {
    webhook: String,
    requests: IntCounterVec,
    decided: IntCounter,
    latency: Histogram,
    in_flight: IntGauge,
    panics: IntCounter,
}

/// Counts a request as in flight until this value is dropped.
pub(crate) struct ReviewInProgress<'a>(&'a IntGauge);

/// The code of almost all responses, for which the counter is looked up in advance.
const DECIDED: u16 = 200;

impl WebhookMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            requests: register_int_counter_vec_with_registry!(
                "controller_runtime_webhook_requests_total",
                "Admission requests, by webhook and code of the decision",
                &["webhook", "code"],
                registry
            )?,
            latency: register_histogram_vec_with_registry!(
                "controller_runtime_webhook_latency_seconds",
                "The time of admission requests, by webhook",
                &["webhook"],
                registry
            )?,
            in_flight: register_int_gauge_vec_with_registry!(
                "controller_runtime_webhook_requests_in_flight",
                "Admission requests in progress, by webhook",
                &["webhook"],
                registry
            )?,
            panics: register_int_counter_with_registry!(
                "controller_runtime_webhook_panics_total",
                "Handlers of admission requests that panicked",
                registry
            )?,
        })
    }

    pub(crate) fn of(&self, webhook: &str) -> OneWebhookMetrics {
        let code = DECIDED.to_string();
        OneWebhookMetrics {
            webhook: webhook.to_owned(),
            requests: self.requests.clone(),
            decided: self.requests.with_label_values(&[webhook, &code]),
            latency: self.latency.with_label_values(&[webhook]),
            in_flight: self.in_flight.with_label_values(&[webhook]),
            panics: self.panics.clone(),
        }
    }
}

impl OneWebhookMetrics {
    pub(crate) fn begin(&self) -> ReviewInProgress<'_> {
        self.in_flight.inc();
        ReviewInProgress(&self.in_flight)
    }

    pub(crate) fn end(&self, code: u16, time: Duration) {
        self.latency.observe(time.as_secs_f64());
        if code == DECIDED {
            self.decided.inc();
            return;
        }
        let labels = [self.webhook.as_str(), &code.to_string()];
        self.requests.with_label_values(&labels).inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }
}

impl Drop for ReviewInProgress<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
