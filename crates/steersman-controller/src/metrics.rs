//! Words: the metrics of one controller, named as controller-runtime names them.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::outcome::Label;

/// The bounds of the buckets of `reconcile_time_seconds`: 5 ms to 60 s.
const TIME_BUCKETS: [f64; 26] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0,
    2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 30.0, 60.0,
];

/// The metrics of one controller; always counted, shown where there is a registry.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    results: IntCounterVec,
    // Of `results`, found once.
    success: IntCounter,
    error: IntCounter,
    requeue_after: IntCounter,
    errors: IntCounter,
    terminal_errors: IntCounter,
    panics: IntCounter,
    timeouts: IntCounter,
    time: Histogram,
    max_concurrent: IntGauge,
    active: IntGauge,
}

impl Metrics {
    pub(crate) fn new(
        controller: &str,
        registry: Option<&Registry>,
    ) -> Result<Self, prometheus::Error> {
        let opts = |metric: &str, help: &str| {
            Opts::new(format!("controller_runtime_{metric}"), help)
                .const_label("controller", controller)
        };
        let counter = |metric: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            IntCounter::with_opts(opts(metric, help))
        };
        let time = HistogramOpts::from(opts("reconcile_time_seconds", "How long reconciles took."))
            .buckets(TIME_BUCKETS.to_vec());
        let results = IntCounterVec::new(
            opts("reconcile_total", "Reconciles, by result."),
            &["result"],
        )?;
        // Dashboards compute rates, and a series that exists from the start has no first jump.
        results.with_label_values(&["requeue"]);
        let metrics = Self {
            success: results.with_label_values(&["success"]),
            error: results.with_label_values(&["error"]),
            requeue_after: results.with_label_values(&["requeue_after"]),
            results,
            errors: counter("reconcile_errors_total", "Reconciles that failed.")?,
            terminal_errors: counter(
                "terminal_reconcile_errors_total",
                "Reconciles that failed with an error that is not retried.",
            )?,
            panics: counter("reconcile_panics_total", "Reconciles that panicked.")?,
            timeouts: counter(
                "reconcile_timeouts_total",
                "Reconciles that were dropped past their deadline.",
            )?,
            time: Histogram::with_opts(time)?,
            max_concurrent: IntGauge::with_opts(opts(
                "max_concurrent_reconciles",
                "How many reconciles may run at once.",
            ))?,
            active: IntGauge::with_opts(opts("active_workers", "How many reconciles run."))?,
        };
        if let Some(registry) = registry {
            for collector in metrics.collectors() {
                registry.register(collector)?;
            }
        }
        Ok(metrics)
    }

    fn collectors(&self) -> [Box<dyn Collector>; 8] {
        [
            Box::new(self.results.clone()),
            Box::new(self.errors.clone()),
            Box::new(self.terminal_errors.clone()),
            Box::new(self.panics.clone()),
            Box::new(self.timeouts.clone()),
            Box::new(self.time.clone()),
            Box::new(self.max_concurrent.clone()),
            Box::new(self.active.clone()),
        ]
    }

    pub(crate) fn workers(&self, count: usize) {
        self.max_concurrent
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn started(&self) {
        self.active.inc();
    }

    pub(crate) fn stopped(&self) {
        self.active.dec();
    }

    pub(crate) fn ended(&self, label: Label, time: Duration) {
        let counter = match label {
            Label::Success => &self.success,
            Label::Error => &self.error,
            Label::RequeueAfter => &self.requeue_after,
        };
        counter.inc();
        self.time.observe(time.as_secs_f64());
    }

    pub(crate) fn failed(&self, terminal: bool) {
        self.errors.inc();
        if terminal {
            self.terminal_errors.inc();
        }
    }

    pub(crate) fn panicked(&self) {
        self.errors.inc();
        self.panics.inc();
    }

    pub(crate) fn timed_out(&self) {
        self.errors.inc();
        self.timeouts.inc();
    }
}
