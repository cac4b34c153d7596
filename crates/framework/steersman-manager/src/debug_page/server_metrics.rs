//! Machine: reads requests, webhooks and certificates from the metrics of a manager.

use prometheus::proto::{Histogram, Metric, MetricFamily};

use super::view::{CertificateRow, RequestCount, WebhookRow};

/// Returns the number of requests to API servers, by host, method and status code.
pub(super) fn requests(families: &[MetricFamily]) -> Vec<RequestCount> {
    let metrics = metrics_of(families, "rest_client_requests_total");
    let mut requests: Vec<RequestCount> = metrics
        .map(|metric| RequestCount {
            host: label(metric, "host"),
            method: label(metric, "method"),
            code: label(metric, "code"),
            count: metric.get_counter().get_value(),
        })
        .collect();
    requests.sort_by_cached_key(|row| (row.host.clone(), row.method.clone(), row.code.clone()));
    requests
}

/// Returns the number and the times of the requests to each webhook.
pub(super) fn webhooks(families: &[MetricFamily]) -> Vec<WebhookRow> {
    let metrics = metrics_of(families, "controller_runtime_webhook_latency_seconds");
    metrics
        .map(|metric| {
            let times = metric.get_histogram();
            let requests = times.get_sample_count();
            WebhookRow {
                webhook: label(metric, "webhook"),
                requests,
                mean_seconds: times.get_sample_sum() / (requests.max(1) as f64),
                p99_seconds: p99(times),
            }
        })
        .collect()
}

/// Returns when the certificates expire: those that servers present, and those of connections.
pub(super) fn certificates(families: &[MetricFamily]) -> Vec<CertificateRow> {
    let presented = metrics_of(
        families,
        "steersman_certificate_not_after_timestamp_seconds",
    );
    let presented = presented.map(|metric| (format!("server {}", label(metric, "server")), metric));
    let sent = "steersman_client_certificate_not_after_timestamp_seconds";
    let sent = metrics_of(families, sent);
    let sent = sent.map(|metric| (format!("client of {}", label(metric, "host")), metric));
    presented
        .chain(sent)
        .map(|(name, metric)| CertificateRow {
            name,
            not_after: metric.get_gauge().get_value(),
        })
        .collect()
}

fn metrics_of<'a>(
    families: &'a [MetricFamily],
    name: &'static str,
) -> impl Iterator<Item = &'a Metric> {
    let family = families.iter().filter(move |family| family.name() == name);
    family.flat_map(MetricFamily::get_metric)
}

fn label(metric: &Metric, name: &str) -> String {
    let labels = metric.get_label().iter();
    let mut labels = labels.filter(|label| label.name() == name);
    labels
        .next()
        .map(|label| label.value().to_owned())
        .unwrap_or_default()
}

/// Returns the upper bound of the first bucket that has 99 of 100 samples with those below it.
fn p99(times: &Histogram) -> Option<f64> {
    let count = times.get_sample_count();
    if count == 0 {
        return None;
    }
    let wanted = count as f64 * 0.99;
    let mut buckets = times.get_bucket().iter();
    let bucket = buckets.find(|bucket| bucket.cumulative_count() as f64 >= wanted)?;
    Some(bucket.upper_bound()).filter(|bound| bound.is_finite())
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;

    #[test]
    fn webhooks_requests_and_certificates_are_read_from_the_registry() {
        let registry = Registry::new();
        let latency = HistogramOpts::new("controller_runtime_webhook_latency_seconds", "h")
            .buckets(vec![0.1, 1.0]);
        let latency = HistogramVec::new(latency, &["webhook"]).unwrap();
        let counter = Opts::new("rest_client_requests_total", "h");
        let counter = IntCounterVec::new(counter, &["code", "host", "method"]).unwrap();
        let gauge = Opts::new("steersman_certificate_not_after_timestamp_seconds", "h");
        let gauge = GaugeVec::new(gauge, &["server"]).unwrap();
        registry.register(Box::new(latency.clone())).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        for _ in 0..98 {
            latency.with_label_values(&["/validate"]).observe(0.05);
        }
        latency.with_label_values(&["/validate"]).observe(0.5);
        latency.with_label_values(&["/validate"]).observe(0.5);
        latency.with_label_values(&["/slow"]).observe(9.0);
        counter.with_label_values(&["409", "here", "PUT"]).inc_by(3);
        gauge.with_label_values(&["metrics"]).set(1e9);
        let families = registry.gather();
        let rows = webhooks(&families);
        let row = rows.iter().find(|row| row.webhook == "/validate").unwrap();
        assert_eq!((row.requests, row.p99_seconds), (100, Some(1.0)));
        assert!((row.mean_seconds - 0.059).abs() < 1e-9, "{row:?}");
        let slow = rows.iter().find(|row| row.webhook == "/slow").unwrap();
        assert_eq!(slow.p99_seconds, None);
        let expected = RequestCount {
            host: "here".to_owned(),
            method: "PUT".to_owned(),
            code: "409".to_owned(),
            count: 3.0,
        };
        assert_eq!(requests(&families), [expected]);
        assert_eq!(certificates(&families)[0].name, "server metrics");
    }
}
