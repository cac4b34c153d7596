//! Words: the metrics of clients.

use std::time::Duration;

use prometheus::{DEFAULT_BUCKETS, HistogramVec, IntCounterVec, Registry};
use steersman_api::metrics::{counters, histograms};
use steersman_object::Kind;

/// The upper bounds, in seconds, of the buckets of the waits before a request is sent again: from the shortest wait to
/// a long `Retry-After`.
const REPEAT_WAITS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0];

/// The metrics of all clients that report to one Prometheus registry. Cheap to clone.
///
/// The label `name` is `Kind.version.group`, as in the metrics of informers. `rest_client_request_retries_total` is the
/// metric of client-go. client-go's `rest_client_rate_limiter_duration_seconds` has no counterpart, because the client
/// has no rate limit: the server's priority and fairness limits requests, and `steersman_request_retry_wait_seconds`
/// shows the resulting waits.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    waits: HistogramVec,
    expiries: IntCounterVec,
    unknown: IntCounterVec,
    skipped: IntCounterVec,
    repeats: IntCounterVec,
    repeat_waits: HistogramVec,
}

impl ClientMetrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already has metrics of these names. Register once for each registry, and give each client a
    /// clone.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            waits: histograms(
                registry,
                "steersman_own_write_wait_seconds",
                "How long cached reads waited for the cache to see what their own key wrote",
                &["name"],
                DEFAULT_BUCKETS,
            )?,
            expiries: counters(
                registry,
                "steersman_own_write_expiries_total",
                "Cached reads that the cache could not answer in time because it had not seen their own writes, by verb",
                &["name", "verb"],
            )?,
            unknown: counters(
                registry,
                "steersman_own_write_unknown_reads_total",
                "Cached reads that first asked the server what the cache has to show of a write",
                &["name"],
            )?,
            skipped: counters(
                registry,
                "steersman_client_skipped_writes_total",
                "Applies that were not sent because the object is in the state that the same apply left",
                &["name"],
            )?,
            repeats: counters(
                registry,
                "rest_client_request_retries_total",
                "Requests sent again because the server said so (Retry-After), by status code, method and server",
                &["code", "verb", "host"],
            )?,
            repeat_waits: histograms(
                registry,
                "steersman_request_retry_wait_seconds",
                "How long requests wait before they are sent again because the server said so (Retry-After), by status code, method and server",
                &["code", "verb", "host"],
                &REPEAT_WAITS,
            )?,
        })
    }

    pub(crate) fn waited(&self, kind: &Kind, time: Duration) {
        let waits = self.waits.with_label_values(&[kind.to_string()]);
        waits.observe(time.as_secs_f64());
    }

    pub(crate) fn expired(&self, kind: &Kind, verb: &str) {
        let name = kind.to_string();
        self.expiries.with_label_values(&[&name, verb]).inc();
    }

    pub(crate) fn asked(&self, kind: &Kind) {
        self.unknown.with_label_values(&[kind.to_string()]).inc();
    }

    pub(crate) fn skipped(&self, kind: &Kind) {
        self.skipped.with_label_values(&[kind.to_string()]).inc();
    }

    /// Counts a request that will be sent again after a wait.
    pub(crate) fn repeated(&self, code: u16, method: &str, host: &str, wait: Duration) {
        let code = code.to_string();
        let labels = [code.as_str(), method, host];
        self.repeats.with_label_values(&labels).inc();
        let waits = self.repeat_waits.with_label_values(&labels);
        waits.observe(wait.as_secs_f64());
    }
}
