//! Words: the metrics of one controller, named as controller-runtime names them.

mod paused;
pub(crate) mod sources;

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use steersman_object::Kind;

use crate::outcome::Label;
use crate::status::ControllerStatus;

/// The bounds of the buckets of `reconcile_time_seconds`: 5 ms to 60 s.
const TIME_BUCKETS: [f64; 26] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0,
    2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 30.0, 60.0,
];

/// The metrics of one controller. They always count; a registry, if there is one, shows them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    results: IntCounterVec,
    // Series of `results`, looked up once.
    success: IntCounter,
    error: IntCounter,
    requeue_after: IntCounter,
    errors: IntCounter,
    terminal_errors: IntCounter,
    panics: IntCounter,
    timeouts: IntCounter,
    gave_up: IntCounter,
    self_triggered: IntCounter,
    overdue: IntGauge,
    time: Histogram,
    max_concurrent: IntGauge,
    active: IntGauge,
    handler_panics: IntCounterVec,
}

/// The metrics of one controller as a user of a [`ReconcileLimit`](crate::ReconcileLimit).
#[derive(Debug, Clone)]
pub(crate) struct PermitMetrics {
    limit: IntGauge,
    waiting: IntGauge,
    wait: Histogram,
}

/// Collects what a controller waits for when the registry is gathered.
struct WaitingCollector {
    status: ControllerStatus,
    kinds: IntGaugeVec,
}

impl Metrics {
    pub(crate) fn new(
        status: &ControllerStatus,
        registry: Option<&Registry>,
    ) -> Result<Self, prometheus::Error> {
        let controller = status.controller();
        let own = |metric: &str, help: &str| {
            Opts::new(metric, help).const_label("controller", controller)
        };
        let opts = |metric: &str, help: &str| own(&format!("controller_runtime_{metric}"), help);
        let counter = |metric: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            IntCounter::with_opts(opts(metric, help))
        };
        let time = HistogramOpts::from(opts("reconcile_time_seconds", "How long reconciles took."))
            .buckets(TIME_BUCKETS.to_vec());
        let results = IntCounterVec::new(
            opts("reconcile_total", "Reconciles, by result."),
            &["result"],
        )?;
        // The series exists from the start, so that dashboards that compute rates see no first jump.
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
                "Reconciles that reached their deadline.",
            )?,
            gave_up: IntCounter::with_opts(own(
                "steersman_controller_gave_up_total",
                "Requests with a last retry that failed: they do not run again until something changes.",
            ))?,
            self_triggered: IntCounter::with_opts(own(
                "steersman_controller_self_triggered_total",
                "Reconciles in a loop: caused by nothing but their own last write of an object, which they wrote again.",
            ))?,
            overdue: IntGauge::with_opts(own(
                "steersman_controller_overdue_reconciles",
                "Reconciles that take longer than twice their deadline, or than ten minutes without one.",
            ))?,
            time: Histogram::with_opts(time)?,
            max_concurrent: IntGauge::with_opts(opts(
                "max_concurrent_reconciles",
                "How many reconciles may run at once.",
            ))?,
            active: IntGauge::with_opts(opts("active_workers", "How many reconciles run."))?,
            handler_panics: IntCounterVec::new(
                own(
                    "steersman_controller_handler_panics_total",
                    "Events lost to a panic of a predicate, handler or filter, by kind of the watch.",
                ),
                &["name"],
            )?,
        };
        let kinds = IntGaugeVec::new(
            own(
                "steersman_controller_waiting",
                "Informers that have not synced and that the controller waits for, by kind and reason.",
            ),
            &["name", "reason"],
        )?;
        if let Some(registry) = registry {
            paused::register(status, registry)?;
            let status = status.clone();
            registry.register(Box::new(WaitingCollector { status, kinds }))?;
            for collector in metrics.collectors() {
                registry.register(collector)?;
            }
        }
        Ok(metrics)
    }

    fn collectors(&self) -> [Box<dyn Collector>; 12] {
        [
            Box::new(self.results.clone()),
            Box::new(self.errors.clone()),
            Box::new(self.terminal_errors.clone()),
            Box::new(self.panics.clone()),
            Box::new(self.timeouts.clone()),
            Box::new(self.gave_up.clone()),
            Box::new(self.self_triggered.clone()),
            Box::new(self.overdue.clone()),
            Box::new(self.time.clone()),
            Box::new(self.max_concurrent.clone()),
            Box::new(self.active.clone()),
            Box::new(self.handler_panics.clone()),
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

    /// Returns the number of reconciles in progress.
    pub(crate) fn active(&self) -> usize {
        usize::try_from(self.active.get()).unwrap_or(0)
    }

    /// Returns the number of reconciles that have ended.
    pub(crate) fn finished(&self) -> u64 {
        self.time.get_sample_count()
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

    /// Counts a reconcile that was dropped.
    pub(crate) fn timed_out(&self) {
        self.errors.inc();
    }

    /// Counts a deadline that a reconcile reached, however the reconcile ends.
    pub(crate) fn reached_deadline(&self) {
        self.timeouts.inc();
    }

    /// Counts a request that is not retried any more.
    pub(crate) fn gave_up(&self) {
        self.gave_up.inc();
    }

    /// Shows the number of reconciles that take too long.
    pub(crate) fn overdue(&self, count: usize) {
        self.overdue.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a reconcile of a loop.
    pub(crate) fn triggered_itself(&self) {
        self.self_triggered.inc();
    }

    /// Creates the series of a watch, so that its first panic appears as an increase.
    pub(crate) fn watches(&self, kind: &Kind) {
        self.handler_panics.with_label_values(&[&kind.to_string()]);
    }

    pub(crate) fn handler_panicked(&self, kind: &Kind) {
        let panics = &self.handler_panics;
        panics.with_label_values(&[&kind.to_string()]).inc();
    }
}

impl PermitMetrics {
    pub(crate) fn new(controller: &str) -> Result<Self, prometheus::Error> {
        let opts = |metric: &str, help: &str| {
            Opts::new(format!("steersman_controller_{metric}"), help)
                .const_label("controller", controller)
        };
        let wait = HistogramOpts::from(opts(
            "permit_wait_seconds",
            "How long workers with a ready request waited for a permit of the shared limit.",
        ))
        .buckets(TIME_BUCKETS.to_vec());
        Ok(Self {
            limit: IntGauge::with_opts(opts(
                "reconcile_limit",
                "How many reconciles may run at once over all controllers that share the limit.",
            ))?,
            waiting: IntGauge::with_opts(opts(
                "permit_waiting",
                "How many workers have a ready request and wait for a permit of the shared limit.",
            ))?,
            wait: Histogram::with_opts(wait)?,
        })
    }

    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.limit.clone()))?;
        registry.register(Box::new(self.waiting.clone()))?;
        registry.register(Box::new(self.wait.clone()))
    }

    pub(crate) fn limited_to(&self, permits: usize) {
        self.limit.set(i64::try_from(permits).unwrap_or(i64::MAX));
    }

    pub(crate) fn waits(&self) {
        self.waiting.inc();
    }

    pub(crate) fn stopped_waiting(&self) {
        self.waiting.dec();
    }

    /// Counts a permit that was granted after `time`.
    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}

impl Collector for WaitingCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.kinds.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.kinds.reset();
        for unsynced in self.status.waiting_for() {
            let labels = [&*unsynced.kind.to_string(), unsynced.reason.as_str()];
            self.kinds.with_label_values(&labels).inc();
        }
        self.kinds.collect()
    }
}
