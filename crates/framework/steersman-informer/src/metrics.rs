//! Words: the metrics of informers.

pub(crate) mod gauges;
mod scrape;

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};
use steersman_api::metrics::{counters, histograms};

use self::gauges::Gauges;
use self::scrape::{LiveGauges, Scrape};

/// Buckets of the durations of lists and watches, in seconds.
const DURATIONS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 180.0, 300.0, 600.0,
];
/// Buckets of the time from an event's arrival to its delivery, in seconds.
const LATENCIES: [f64; 11] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0,
];
/// Buckets of the number of items of a list or watch.
const ITEMS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// The metrics of all informers of one registry. Cheap to clone.
///
/// Names that begin with `reflector_` are client-go's. The label `name` is `Kind.version.group`: all informers of a
/// kind count together, so that the number of series follows the number of kinds.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    lists: IntCounterVec,
    list_duration: HistogramVec,
    items_per_list: HistogramVec,
    watches: IntCounterVec,
    short_watches: IntCounterVec,
    watch_duration: HistogramVec,
    items_per_watch: HistogramVec,
    failures: IntCounterVec,
    events: IntCounterVec,
    foreign: IntCounterVec,
    latency: HistogramVec,
    hits: IntCounterVec,
    unpacks: IntCounterVec,
    evictions: IntCounterVec,
    living: Arc<LiveGauges>,
}

/// The counters of one informer; without a registry they count nothing. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    counted: Option<Arc<Counted>>,
}

#[derive(Debug)]
pub(crate) struct Counted {
    name: String,
    pub(crate) lists: IntCounter,
    list_duration: Histogram,
    items_per_list: Histogram,
    pub(crate) watches: IntCounter,
    short_watches: IntCounter,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    failures: IntCounterVec,
    events: IntCounterVec,
    foreign: IntCounterVec,
    latency: Histogram,
    /// The number of reads that found the decoded object in the cache.
    pub(crate) hits: IntCounter,
    pub(crate) unpacks: IntCounter,
    pub(crate) evictions: IntCounter,
    gauges: Arc<Gauges>,
}

impl InformerMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names already. Make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| counters(registry, name, help, &["name"]);
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            histograms(registry, name, help, &["name"], buckets)
        };
        let living = Arc::<LiveGauges>::default();
        registry.register(Box::new(Scrape::new(Arc::clone(&living))?))?;
        Ok(Self {
            lists: counter(
                "reflector_lists_total",
                "Lists begun by reflectors; a streaming list is one of them",
            )?,
            list_duration: histogram(
                "reflector_list_duration_seconds",
                "How long lists took until they were complete, pages and streaming lists included",
                &DURATIONS,
            )?,
            items_per_list: histogram(
                "reflector_items_per_list",
                "How many objects lists brought",
                &ITEMS,
            )?,
            watches: counter(
                "reflector_watches_total",
                "Watches asked for by reflectors, streaming lists included",
            )?,
            short_watches: counter(
                "reflector_short_watches_total",
                "Watches that ended within a second and brought nothing",
            )?,
            watch_duration: histogram(
                "reflector_watch_duration_seconds",
                "How long watches were open",
                &DURATIONS,
            )?,
            items_per_watch: histogram(
                "reflector_items_per_watch",
                "How many events watches brought, bookmarks included",
                &ITEMS,
            )?,
            failures: counters(
                registry,
                "steersman_reflector_failures_total",
                "Requests of reflectors that failed, by reason",
                &["name", "reason"],
            )?,
            events: counters(
                registry,
                "steersman_informer_events_total",
                "Changes of stored objects, by type",
                &["name", "type"],
            )?,
            foreign: counter(
                "steersman_informer_foreign_objects_total",
                "Objects of lists and watches that were dropped, because another replica holds their slot",
            )?,
            latency: histogram(
                "steersman_informer_event_latency_seconds",
                "From the arrival of an event to the store and the mailboxes of all subscribers",
                &LATENCIES,
            )?,
            hits: counter(
                "steersman_informer_decoded_hits_total",
                "Reads of single objects that were held decoded",
            )?,
            unpacks: counter(
                "steersman_informer_unpacks_total",
                "Objects that were unpacked and decoded, for reads, lists and events",
            )?,
            evictions: counter(
                "steersman_informer_evictions_total",
                "Decoded objects evicted because the budget was spent",
            )?,
            living,
        })
    }
}

impl Counters {
    pub(crate) fn new(metrics: Option<&InformerMetrics>, name: impl Into<String>) -> Self {
        let counted = metrics.map(|metrics| Arc::new(Counted::new(metrics, name.into())));
        Self { counted }
    }

    /// Adds one to the counter that `counter` selects.
    pub(crate) fn inc(&self, counter: impl Fn(&Counted) -> &IntCounter) {
        if let Some(counted) = &self.counted {
            counter(counted).inc();
        }
    }

    pub(crate) fn listed(&self, items: usize, took: Duration) {
        if let Some(counted) = &self.counted {
            counted.list_duration.observe(took.as_secs_f64());
            counted.items_per_list.observe(float(items));
        }
    }

    pub(crate) fn watched(&self, items: usize, open: Duration) {
        if let Some(counted) = &self.counted {
            counted.watch_duration.observe(open.as_secs_f64());
            counted.items_per_watch.observe(float(items));
            if items == 0 && open < Duration::from_secs(1) {
                counted.short_watches.inc();
            }
        }
    }

    pub(crate) fn failure(&self, reason: &str) {
        if let Some(counted) = &self.counted {
            let labels = [counted.name.as_str(), reason];
            counted.failures.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn events(&self, counts: impl IntoIterator<Item = (&'static str, u64)>) {
        if let Some(counted) = &self.counted {
            for (word, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                let labels = [counted.name.as_str(), word];
                counted.events.with_label_values(&labels).inc_by(count);
            }
        }
    }

    /// Counts an object that was dropped because another replica holds its slot. Only informers with a filter have this
    /// series.
    pub(crate) fn foreign(&self) {
        if let Some(counted) = &self.counted {
            let of = [counted.name.as_str()];
            counted.foreign.with_label_values(&of).inc();
        }
    }

    /// Observes the time from the arrival of an event to its delivery.
    pub(crate) fn handed_over(&self, after: Duration) {
        if let Some(counted) = &self.counted {
            counted.latency.observe(after.as_secs_f64());
        }
    }

    pub(crate) fn gauges(&self) -> Option<&Gauges> {
        self.counted.as_deref().map(|counted| &*counted.gauges)
    }
}

impl Counted {
    fn new(metrics: &InformerMetrics, name: String) -> Self {
        let gauges = Arc::<Gauges>::default();
        metrics.living.add(&name, &gauges);
        let of = [name.as_str()];
        Self {
            lists: metrics.lists.with_label_values(&of),
            list_duration: metrics.list_duration.with_label_values(&of),
            items_per_list: metrics.items_per_list.with_label_values(&of),
            watches: metrics.watches.with_label_values(&of),
            short_watches: metrics.short_watches.with_label_values(&of),
            watch_duration: metrics.watch_duration.with_label_values(&of),
            items_per_watch: metrics.items_per_watch.with_label_values(&of),
            failures: metrics.failures.clone(),
            events: metrics.events.clone(),
            foreign: metrics.foreign.clone(),
            latency: metrics.latency.with_label_values(&of),
            hits: metrics.hits.with_label_values(&of),
            unpacks: metrics.unpacks.with_label_values(&of),
            evictions: metrics.evictions.with_label_values(&of),
            gauges,
            name,
        }
    }
}

fn float(items: usize) -> f64 {
    u32::try_from(items).map_or(f64::INFINITY, f64::from)
}
