//! Words: the metrics of one queue, named as client-go names them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntGaugeVec, Opts, Registry, exponential_buckets,
};

use crate::error::MetricsError;

/// The number of priorities with their own series of the depth, as in controller-runtime; the others share one.
const DEPTH_PRIORITIES: usize = 25;
const DEPTH_OVERFLOW: &str = "exceeded_cardinality_limit";

/// The metrics of one queue; cheap to clone.
///
/// Names and labels are those of client-go and controller-runtime, so their dashboards work:
/// `workqueue_depth{name,controller,priority}`, and with `{name,controller}` `workqueue_adds_total`,
/// `workqueue_retries_total`, `workqueue_queue_duration_seconds`, `workqueue_work_duration_seconds`,
/// `workqueue_unfinished_work_seconds` and `workqueue_longest_running_processor_seconds`. The depth and the last two
/// are computed when the registry is gathered.
#[derive(Clone, derive_more::Debug)]
#[debug("Metrics {{ .. }}")]
pub struct Metrics {
    inner: Arc<QueueMetrics>,
}

/// The values that are computed when the registry gathers metrics.
#[derive(Debug, Default, Clone)]
pub(crate) struct QueueSnapshot {
    pub(crate) depths: Vec<(i32, usize)>,
    pub(crate) unfinished: Duration,
    pub(crate) longest: Duration,
}

type Probe = Box<dyn Fn() -> Option<QueueSnapshot> + Send + Sync>;

struct QueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounter,
    retries: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    probe: Mutex<Option<Probe>>,
    labelled: Mutex<BTreeSet<i32>>,
}

// === impl Metrics ===

impl Metrics {
    /// Makes the metrics of the queue called `name` and registers them.
    ///
    /// # Errors
    ///
    /// If the registry already holds metrics of a queue with that name.
    pub fn new(registry: &Registry, name: &str) -> Result<Self, MetricsError> {
        let error = |source| MetricsError {
            name: name.to_owned(),
            source,
        };
        let inner = Arc::new(QueueMetrics::new(name).map_err(error)?);
        registry
            .register(Box::new(Scrape(Arc::clone(&inner))))
            .map_err(error)?;
        Ok(Self { inner })
    }

    pub(crate) fn attach(&self, probe: Probe) {
        *self.inner.probe.lock() = Some(probe);
    }

    pub(crate) fn added(&self) {
        self.inner.adds.inc();
    }

    pub(crate) fn retried(&self) {
        self.inner.retries.inc();
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.inner.queue_duration.observe(time.as_secs_f64());
    }

    pub(crate) fn worked(&self, time: Duration) {
        self.inner.work_duration.observe(time.as_secs_f64());
    }
}

// === impl QueueMetrics ===

impl QueueMetrics {
    fn new(name: &str) -> Result<Self, prometheus::Error> {
        let opts = |metric: &str, help: &str| {
            Opts::new(format!("workqueue_{metric}"), help)
                .const_label("name", name)
                .const_label("controller", name)
        };
        // One bucket per power of ten, from 10 ns to 1000 s.
        let histogram = |metric: &str, help: &str| -> Result<Histogram, prometheus::Error> {
            let mut histogram = HistogramOpts::from(opts(metric, help));
            histogram.buckets = exponential_buckets(1e-8, 10.0, 12)?;
            Histogram::with_opts(histogram)
        };
        Ok(Self {
            depth: IntGaugeVec::new(opts("depth", "Keys that are ready."), &["priority"])?,
            adds: IntCounter::with_opts(opts("adds_total", "Keys added, duplicates not counted."))?,
            retries: IntCounter::with_opts(opts("retries_total", "Keys added with backoff."))?,
            queue_duration: histogram(
                "queue_duration_seconds",
                "How long keys were ready before a worker took them.",
            )?,
            work_duration: histogram("work_duration_seconds", "How long workers held keys.")?,
            unfinished: Gauge::with_opts(opts(
                "unfinished_work_seconds",
                "How long the keys held now have been held, all together.",
            ))?,
            longest: Gauge::with_opts(opts(
                "longest_running_processor_seconds",
                "How long the key held longest has been held.",
            ))?,
            probe: Mutex::new(None),
            labelled: Mutex::new(BTreeSet::new()),
        })
    }

    fn refresh(&self) {
        let snapshot = self.probe.lock().as_ref().and_then(|probe| probe());
        let snapshot = snapshot.unwrap_or_default();
        self.unfinished.set(snapshot.unfinished.as_secs_f64());
        self.longest.set(snapshot.longest.as_secs_f64());
        let mut labelled = self.labelled.lock();
        let mut overflow = 0;
        for priority in labelled.iter() {
            self.depth.with_label_values(&[priority.to_string()]).set(0);
        }
        for (priority, depth) in snapshot.depths {
            let depth = i64::try_from(depth).unwrap_or(i64::MAX);
            if labelled.len() < DEPTH_PRIORITIES || labelled.contains(&priority) {
                labelled.insert(priority);
                self.depth
                    .with_label_values(&[priority.to_string()])
                    .set(depth);
            } else {
                overflow += depth;
            }
        }
        if labelled.len() == DEPTH_PRIORITIES {
            self.depth
                .with_label_values(&[DEPTH_OVERFLOW])
                .set(overflow);
        }
    }

    fn collectors(&self) -> [&dyn Collector; 7] {
        [
            &self.depth, &self.adds, &self.retries, &self.queue_duration, &self.work_duration,
            &self.unfinished, &self.longest,
        ]
    }
}

// The collector in the registry. A separate type, so that [`Metrics`] itself does not implement `Collector`.
struct Scrape(Arc<QueueMetrics>);

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        self.0
            .collectors()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.refresh();
        self.0
            .collectors()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}
