//! Words: the metrics of one controller, named as controller-runtime names them.

pub(crate) mod sources;

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};
use steersman_object::Kind;

use crate::outcome::Label;
use crate::status::ControllerStatus;

/// The upper bounds of the buckets of the time histograms, in seconds.
const TIME_BUCKETS: [f64; 26] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0,
    2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 30.0, 60.0,
];

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    success: IntCounter,
    error: IntCounter,
    requeue_after: IntCounter,
    errors: IntCounter,
    terminal_errors: IntCounter,
    panics: IntCounter,
    /// The number of reconciles that reached their deadline. A reconcile that ends within the grace is counted, too.
    pub(crate) timeouts: IntCounter,
    pub(crate) gave_up: IntCounter,
    pub(crate) self_triggered: IntCounter,
    overdue: IntGauge,
    time: Histogram,
    max_concurrent: IntGauge,
    pub(crate) active: IntGauge,
    handler_panics: IntCounterVec,
}

/// The metrics of one controller that uses a [`ReconcileLimit`](crate::ReconcileLimit).
#[derive(Debug, Clone)]
pub(crate) struct PermitMetrics {
    pub(crate) limit: IntGauge,
    pub(crate) waiting: IntGauge,
    wait: Histogram,
}

/// Registers the metrics of one controller. Each metric has the name of the controller as a label.
pub(crate) struct Registrar<'a> {
    pub(crate) controller: &'a str,
    pub(crate) registry: &'a Registry,
}

/// A gauge that `refresh` sets from the status of a controller whenever the registry gathers its metrics.
struct StatusCollector<G> {
    status: ControllerStatus,
    gauge: G,
    refresh: fn(&ControllerStatus, &G),
}

impl Metrics {
    pub(crate) fn new(
        registrar: &Registrar<'_>,
        status: &ControllerStatus,
    ) -> Result<Self, prometheus::Error> {
        let results = registrar.counters(
            "controller_runtime_reconcile_total",
            "Reconciles, by result.",
            &["result"],
        )?;
        // No reconcile has this result, but its metric series exists, because dashboards for controller-runtime read
        // it.
        results.with_label_values(&["requeue"]);
        registrar.paused(status)?;
        registrar.waiting(status)?;
        Ok(Self {
            success: results.with_label_values(&["success"]),
            error: results.with_label_values(&["error"]),
            requeue_after: results.with_label_values(&["requeue_after"]),
            errors: registrar.counter(
                "controller_runtime_reconcile_errors_total",
                "Reconciles that failed.",
            )?,
            terminal_errors: registrar.counter(
                "controller_runtime_terminal_reconcile_errors_total",
                "Reconciles that failed with an error that is not retried.",
            )?,
            panics: registrar.counter(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked.",
            )?,
            timeouts: registrar.counter(
                "controller_runtime_reconcile_timeouts_total",
                "Reconciles that reached their deadline.",
            )?,
            gave_up: registrar.counter(
                "steersman_controller_gave_up_total",
                "Requests with a last retry that failed: they do not run again until something changes.",
            )?,
            self_triggered: registrar.counter(
                "steersman_controller_self_triggered_total",
                "Reconciles in a loop: caused by nothing but their own last write of an object, which they wrote again.",
            )?,
            overdue: registrar.gauge(
                "steersman_controller_overdue_reconciles",
                "Reconciles that take longer than twice their deadline, or than ten minutes without one.",
            )?,
            time: registrar.histogram(
                "controller_runtime_reconcile_time_seconds",
                "How long reconciles took.",
            )?,
            max_concurrent: registrar.gauge(
                "controller_runtime_max_concurrent_reconciles",
                "How many reconciles may run at once.",
            )?,
            active: registrar.gauge(
                "controller_runtime_active_workers",
                "How many reconciles run.",
            )?,
            handler_panics: registrar.counters(
                "steersman_controller_handler_panics_total",
                "Events lost to a panic of a predicate, handler or filter, by kind of the watch.",
                &["name"],
            )?,
        })
    }

    pub(crate) fn workers(&self, count: usize) {
        self.max_concurrent
            .set(i64::try_from(count).unwrap_or(i64::MAX));
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

    pub(crate) fn overdue(&self, count: usize) {
        self.overdue.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Creates the metric series of a watch, so that its first panic appears as an increase from 0.
    pub(crate) fn watches(&self, kind: &Kind) {
        self.handler_panics.with_label_values(&[&kind.to_string()]);
    }

    pub(crate) fn handler_panicked(&self, kind: &Kind) {
        let panics = &self.handler_panics;
        panics.with_label_values(&[&kind.to_string()]).inc();
    }
}

impl PermitMetrics {
    pub(crate) fn new(registrar: &Registrar<'_>) -> Result<Self, prometheus::Error> {
        Ok(Self {
            limit: registrar.gauge(
                "steersman_controller_reconcile_limit",
                "How many reconciles may run at once over all controllers that share the limit.",
            )?,
            waiting: registrar.gauge(
                "steersman_controller_permit_waiting",
                "How many workers have a ready request and wait for a permit of the shared limit.",
            )?,
            wait: registrar.histogram(
                "steersman_controller_permit_wait_seconds",
                "How long workers with a ready request waited for a permit of the shared limit.",
            )?,
        })
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}

impl Registrar<'_> {
    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        register_int_counter_with_registry!(self.opts(name, help), self.registry)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        register_int_counter_vec_with_registry!(self.opts(name, help), labels, self.registry)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        register_int_gauge_with_registry!(self.opts(name, help), self.registry)
    }

    fn histogram(&self, name: &str, help: &str) -> prometheus::Result<Histogram> {
        let opts = HistogramOpts::from(self.opts(name, help)).buckets(TIME_BUCKETS.to_vec());
        register_histogram_with_registry!(opts, self.registry)
    }

    /// Registers the gauge of paused objects, if the controller declares a pause.
    fn paused(&self, status: &ControllerStatus) -> prometheus::Result<()> {
        if status.paused_count().is_none() {
            return Ok(());
        }
        let opts = self.opts(
            "steersman_controller_paused_objects",
            "Objects that a rule of a pause keeps from the reconciler.",
        );
        self.registry.register(Box::new(StatusCollector {
            status: status.clone(),
            gauge: IntGauge::with_opts(opts)?,
            refresh: |status, objects| {
                let count = status.paused_count().unwrap_or_default();
                objects.set(i64::try_from(count).unwrap_or(i64::MAX));
            },
        }))
    }

    fn waiting(&self, status: &ControllerStatus) -> prometheus::Result<()> {
        let opts = self.opts(
            "steersman_controller_waiting",
            "Informers that have not synced and that the controller waits for, by kind and reason.",
        );
        self.registry.register(Box::new(StatusCollector {
            status: status.clone(),
            gauge: IntGaugeVec::new(opts, &["name", "reason"])?,
            refresh: |status, kinds| {
                kinds.reset();
                for unsynced in status.waiting_for() {
                    let labels = [&*unsynced.kind.to_string(), unsynced.reason.as_str()];
                    kinds.with_label_values(&labels).inc();
                }
            },
        }))
    }

    fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, help).const_label("controller", self.controller)
    }
}

impl<G: Collector> Collector for StatusCollector<G> {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.refresh)(&self.status, &self.gauge);
        self.gauge.collect()
    }
}
