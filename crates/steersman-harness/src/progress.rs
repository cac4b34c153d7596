//! Words: the progress of all controllers of a manager, read from its metrics.

use prometheus::Registry;
use prometheus::proto::MetricFamily;

/// The progress of all controllers of one manager at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The number of controllers that have started.
    pub(crate) controllers: usize,
    /// The number of reconciles that have ended.
    pub(crate) reconciles: u64,
    /// The number of requests that wait for a worker.
    pub(crate) ready: u64,
    /// The number of reconciles in progress.
    pub(crate) running: u64,
}

impl Progress {
    /// Reads the metrics.
    pub(crate) fn of(registry: &Registry) -> Self {
        let mut progress = Self::default();
        for family in registry.gather() {
            match family.name() {
                "controller_runtime_max_concurrent_reconciles" => {
                    progress.controllers = family.get_metric().len();
                }
                "controller_runtime_reconcile_time_seconds" => {
                    let series = family.get_metric().iter();
                    let counts = series.map(|metric| metric.get_histogram().get_sample_count());
                    progress.reconciles = counts.sum();
                }
                "workqueue_depth" => progress.ready = sum(&family),
                "controller_runtime_active_workers" => progress.running = sum(&family),
                _ => {}
            }
        }
        progress
    }

    /// Returns whether no request waits or is reconciled.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready == 0 && self.running == 0
    }
}

/// Returns the number of requests of the operator that change objects, by its own metrics.
pub(crate) fn sent_writes(registry: &Registry) -> u64 {
    let mut sent = 0.0;
    for family in registry.gather() {
        if family.name() != "rest_client_requests_total" {
            continue;
        }
        for metric in family.get_metric() {
            let mut labels = metric.get_label().iter();
            let is_write = labels.any(|label| {
                label.name() == "method" && !matches!(label.value(), "GET" | "HEAD" | "OPTIONS")
            });
            if is_write {
                sent += metric.get_counter().get_value();
            }
        }
    }
    whole(sent)
}

fn sum(family: &MetricFamily) -> u64 {
    let series = family.get_metric().iter();
    whole(series.map(|metric| metric.get_gauge().get_value()).sum())
}

/// Returns a count, which metrics hold as a floating point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of requests are small and not negative"
)]
fn whole(count: f64) -> u64 {
    count.max(0.0) as u64
}
