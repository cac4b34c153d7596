//! Words: the progress of a manager's controllers, read from the metrics.

use prometheus::Registry;
use prometheus::proto::MetricFamily;

/// The progress of all controllers of one manager at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControllerProgress {
    /// The number of controllers that have started.
    pub(crate) controllers: usize,
    /// The number of reconciles that have ended.
    pub(crate) reconciles: u64,
    /// The number of requests that are ready and wait for a worker.
    pub(crate) ready: u64,
    /// The number of reconciles in progress.
    pub(crate) running: u64,
}

impl ControllerProgress {
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

    /// Returns whether no request waits and no reconcile runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready == 0 && self.running == 0
    }
}

/// Returns the number of writes that the operator has sent, by its own metrics.
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

/// The cast is exact: metrics store counts as floating point numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of requests are small and not negative"
)]
fn whole(count: f64) -> u64 {
    count.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use prometheus::{CounterVec, GaugeVec, Histogram, HistogramOpts, IntGauge, Opts, Registry};

    use super::*;

    fn opts(name: &str) -> Opts {
        Opts::new(name, "help")
    }

    #[test]
    fn the_progress_is_the_sum_over_all_controllers() {
        let registry = Registry::new();
        for (controller, running) in [("a", 1), ("b", 2)] {
            let of = |name: &str| opts(name).const_label("controller", controller);
            let most = IntGauge::with_opts(of("controller_runtime_max_concurrent_reconciles"));
            registry.register(Box::new(most.unwrap())).unwrap();
            let active = IntGauge::with_opts(of("controller_runtime_active_workers")).unwrap();
            active.set(running);
            registry.register(Box::new(active)).unwrap();
            let time = of("controller_runtime_reconcile_time_seconds");
            let time = Histogram::with_opts(HistogramOpts::from(time)).unwrap();
            time.observe(0.5);
            time.observe(0.5);
            registry.register(Box::new(time)).unwrap();
        }
        let depth = GaugeVec::new(opts("workqueue_depth"), &["priority"]).unwrap();
        depth.with_label_values(&["0"]).set(3.0);
        depth.with_label_values(&["-100"]).set(4.0);
        registry.register(Box::new(depth)).unwrap();
        let progress = ControllerProgress::of(&registry);
        let expected = ControllerProgress {
            controllers: 2,
            reconciles: 4,
            ready: 7,
            running: 3,
        };
        assert_eq!(progress, expected);
        assert!(!progress.is_idle() && ControllerProgress::default().is_idle());
    }

    #[test]
    fn requests_that_change_objects_are_counted_by_their_method() {
        let registry = Registry::new();
        let labels = ["code", "method", "host"];
        let sent = CounterVec::new(opts("rest_client_requests_total"), &labels).unwrap();
        for (method, count) in [("GET", 9.0), ("POST", 2.0), ("PATCH", 3.0), ("DELETE", 1.0)] {
            sent.with_label_values(&["200", method, "server"])
                .inc_by(count);
        }
        registry.register(Box::new(sent)).unwrap();
        assert_eq!(sent_writes(&registry), 6);
    }
}
