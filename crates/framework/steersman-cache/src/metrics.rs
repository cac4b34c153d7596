//! Words: the metrics of caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramVec, IntCounterVec, Opts, Registry};
use steersman_api::metrics::{counters, histograms};
use steersman_informer::InformerMetrics;

/// Bucket bounds of the waits for a first sync, in seconds: 1 ms to the default sync timeout.
const WAITS: [f64; 11] = [
    0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0,
];

/// The metrics of all caches and informers of one registry; cheap to clone.
///
/// The label `name` of their series is `Kind.version.group`.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    informers: InformerMetrics,
    reads: ReadsCollector,
    waits: HistogramVec,
    lingered: IntCounterVec,
}

/// The verb under which the metrics count a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A read of one object.
    Get,
    /// A read of several objects, their keys, or the values of an index.
    List,
}

/// The result of a read's wait for a first sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncWait {
    Synced,
    Unavailable,
    Timeout,
    Stopped,
}

#[derive(Debug, Default)]
pub(crate) struct ReadCounts {
    gets: AtomicU64,
    lists: AtomicU64,
}

/// Adds up the read counters of all kinds and all caches when the registry is scraped. Clones share the counters.
#[derive(Clone, Debug)]
struct ReadsCollector {
    counts: Arc<Mutex<NamedCounts>>,
    shown: IntCounterVec,
}

type NamedCounts = Vec<(String, Arc<ReadCounts>)>;

impl CacheMetrics {
    /// Creates and registers the metrics of caches and informers.
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names: create one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let shown = Opts::new(
            "steersman_cache_reads_total",
            "Reads of the cache by verb, without reads through a store handle",
        );
        let metrics = Self {
            informers: InformerMetrics::register(registry)?,
            reads: ReadsCollector {
                counts: Arc::default(),
                shown: IntCounterVec::new(shown, &["name", "verb"])?,
            },
            waits: histograms(
                registry,
                "steersman_cache_sync_wait_seconds",
                "How long reads waited for the first sync of their kind, by outcome",
                &["name", "outcome"],
                &WAITS,
            )?,
            lingered: counters(
                registry,
                "steersman_cache_informers_lingered_total",
                "Undeclared informers that ended because they were idle",
                &["name"],
            )?,
        };
        registry.register(Box::new(metrics.reads.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn informers(&self) -> &InformerMetrics {
        &self.informers
    }

    /// Returns new read counters for one kind (`name`) in one cache; their sums are shown per kind.
    pub(crate) fn reads_of(&self, name: String) -> Arc<ReadCounts> {
        let counts = Arc::<ReadCounts>::default();
        let mut all = self.reads.counts.lock();
        all.push((name, Arc::clone(&counts)));
        counts
    }

    pub(crate) fn waited(&self, name: &str, outcome: SyncWait, time: Duration) {
        let outcome = match outcome {
            SyncWait::Synced => "synced",
            SyncWait::Unavailable => "unavailable",
            SyncWait::Timeout => "timeout",
            SyncWait::Stopped => "stopped",
        };
        let waits = self.waits.with_label_values(&[name, outcome]);
        waits.observe(time.as_secs_f64());
    }

    pub(crate) fn lingered(&self, name: &str) {
        self.lingered.with_label_values(&[name]).inc();
    }
}

impl ReadCounts {
    pub(crate) fn count(&self, verb: Verb) {
        let reads = match verb {
            Verb::Get => &self.gets,
            Verb::List => &self.lists,
        };
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Collector for ReadsCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.shown.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The lock is held to the end, because two concurrent collections would add to the same sums.
        let counts = self.counts.lock();
        self.shown.reset();
        for (name, counts) in counts.iter() {
            for (verb, reads) in [("get", &counts.gets), ("list", &counts.lists)] {
                let shown = self.shown.with_label_values(&[name.as_str(), verb]);
                shown.inc_by(reads.load(Ordering::Relaxed));
            }
        }
        self.shown.collect()
    }
}
