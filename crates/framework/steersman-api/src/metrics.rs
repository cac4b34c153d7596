//! Words: the metrics of requests, with client-go's names.

use http::{Method, StatusCode};
use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Bucket bounds of durations, in seconds, as of component-base (`metrics/prometheus/restclient`).
const DURATIONS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Bucket bounds of sizes, in bytes, as of component-base: 64 bytes to 16 MiB.
const SIZES: [f64; 11] = [
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0,
];

/// The metrics of the requests of all client configurations that have a clone
/// ([`ClientConfig::metrics`](crate::ClientConfig::metrics)). Cheap to clone. A manager makes metrics for its own
/// configuration.
///
/// Names, labels and buckets are those of client-go (`tools/metrics`), with the adapters of component-base:
///
/// | Metric | Labels | Type |
/// |---|---|---|
/// | `rest_client_requests_total` | `code`, `method`, `host` | counter |
/// | `rest_client_request_duration_seconds` | `verb`, `host` | histogram |
/// | `rest_client_request_size_bytes` | `verb`, `host` | histogram |
/// | `rest_client_response_size_bytes` | `verb`, `host` | histogram |
/// | `steersman_connection_dropped_fields_total` | `name`, `host` | counter |
///
/// - `code` is the status code of the answer, or `<error>` for a request without an answer: the connection broke, a
///   layer refused the request, the time limit passed, or the caller was dropped.
/// - Each request of a client counts once (CONN-6), however often the transport sends it (CONN-4, CONN-5).
/// - `method` and `verb` are the HTTP method, as in client-go. `host` is
///   [`ClientConfig::host`](crate::ClientConfig::host). No label holds a path or the name of an object.
/// - The duration ends with the body of the answer, and includes the layers of the client. A client that repeats a
///   request after a `Retry-After` makes several requests; the duration does not include the time between them.
/// - The size of a request is that of its body, or zero. The size of a response is the number of bytes of its body that
///   were read.
/// - Dropped fields are those that a newer server sends in protobuf and this version does not know. Objects lack them,
///   as a Rust type lacks unknown fields in JSON. `name` is the kind, for example `pods` or `deployments.apps`.
/// - A watch, or a log that is followed, counts once, when it is answered. It has neither a duration nor sizes.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    requests: IntCounterVec,
    pub(crate) durations: HistogramVec,
    pub(crate) request_sizes: HistogramVec,
    pub(crate) response_sizes: HistogramVec,
    dropped_fields: IntCounterVec,
}

impl ConnectionMetrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let labels = ["verb", "host"];
        Ok(Self {
            requests: counters(
                registry,
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            )?,
            durations: histograms(
                registry,
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &labels,
                &DURATIONS,
            )?,
            request_sizes: histograms(
                registry,
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &labels,
                &SIZES,
            )?,
            response_sizes: histograms(
                registry,
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &labels,
                &SIZES,
            )?,
            dropped_fields: counters(
                registry,
                "steersman_connection_dropped_fields_total",
                "Fields in protobuf that this version does not know, by kind.",
                &["name", "host"],
            )?,
        })
    }

    /// Returns these metrics with a fixed value of the label `host`.
    pub(crate) fn of_host(self, host: &str) -> HostMetrics {
        HostMetrics {
            metrics: self,
            host: host.to_owned(),
        }
    }
}

/// The metrics of the requests to one server.
///
/// Updates neither format nor allocate: each label is an existing text.
#[derive(Debug)]
pub(crate) struct HostMetrics {
    metrics: ConnectionMetrics,
    host: String,
}

impl HostMetrics {
    /// Counts a request. `code` is `None` for a request without an answer.
    pub(crate) fn count(&self, code: Option<StatusCode>, method: &Method) {
        let code = code.as_ref().map_or("<error>", StatusCode::as_str);
        let labels = [code, method.as_str(), &self.host];
        self.metrics.requests.with_label_values(&labels).inc();
    }

    pub(crate) fn count_dropped_fields(&self, kind: &str, count: u64) {
        let labels = [kind, &self.host];
        let counter = self.metrics.dropped_fields.with_label_values(&labels);
        counter.inc_by(count);
    }

    /// Observes the duration of a request, in seconds, or the size of a body, in bytes.
    pub(crate) fn observe(
        &self,
        histogram: fn(&ConnectionMetrics) -> &HistogramVec,
        method: &Method,
        value: f64,
    ) {
        let labels = [method.as_str(), &self.host];
        let histogram = histogram(&self.metrics);
        histogram.with_label_values(&labels).observe(value);
    }
}

/// Makes and registers a vector of counters; also for the metrics of other crates of the framework.
///
/// # Errors
///
/// If the registry already has a metric of this name.
#[doc(hidden)]
pub fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

/// Makes and registers a vector of histograms, as [`counters`] does for counters.
///
/// # Errors
///
/// If the registry already has a metric of this name.
#[doc(hidden)]
pub fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &[f64],
) -> prometheus::Result<HistogramVec> {
    let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    registered(registry, HistogramVec::new(opts, labels)?)
}

fn registered<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: M,
) -> prometheus::Result<M> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}
