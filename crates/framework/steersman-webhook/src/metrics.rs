//! Handle: the metrics of webhooks.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
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

/// The metrics of one webhook. Its labels are looked up once.
pub(crate) struct OneWebhookMetrics {
    webhook: String,
    requests: IntCounterVec,
    decided: IntCounter,
    latency: Histogram,
    in_flight: IntGauge,
    panics: IntCounter,
}

/// Counts a request as in progress until it is dropped.
pub(crate) struct ReviewInProgress<'a>(&'a IntGauge);

/// The code of almost all decisions.
const DECIDED: u16 = 200;

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

    /// Returns the metrics of the webhook at a path.
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
