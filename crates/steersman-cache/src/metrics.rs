//! Words: what caches count, beside what their informers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use steersman_informer::InformerMetrics;

/// How long reads wait for a first sync: 1 ms to the two minutes that they do by default.
const WAITS: [f64; 11] = [
    0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0,
];

/// The metrics of all caches and informers of one registry; cheap to clone.
///
/// Their label `name` is `Kind.version.group`.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    informers: InformerMetrics,
    reads: Arc<Readings>,
    waits: HistogramVec,
    lingered: IntCounterVec,
}

/// How a kind is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// One object.
    Get,
    /// Several, their keys, or the values of an index.
    List,
}

/// How the wait of a read for the first sync of a kind came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Synced,
    Unavailable,
    Timeout,
    Stopped,
}

/// The reads of one kind in one cache.
#[derive(Debug, Default)]
pub(crate) struct ReadCounts {
    gets: AtomicU64,
    lists: AtomicU64,
}

/// The reads of all kinds in all caches of a registry.
#[derive(Debug)]
struct Readings {
    counts: Mutex<Vec<(String, Arc<ReadCounts>)>>,
    shown: IntCounterVec,
}

/// What a registry holds of them.
#[derive(Debug)]
struct Shown(Arc<Readings>);

impl CacheMetrics {
    /// Makes the metrics and registers them, with those of informers.
    ///
    /// # Errors
    ///
    /// Where the registry has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let waits = HistogramOpts::new(
            "steersman_cache_sync_wait_seconds",
            "How long reads waited for the first sync of their kind, by what came of it",
        );
        let metrics = Self {
            informers: InformerMetrics::register(registry)?,
            reads: Arc::new(Readings {
                counts: Mutex::default(),
                shown: IntCounterVec::new(
                    Opts::new(
                        "steersman_cache_reads_total",
                        "Reads of the cache by verb; those of a store's own handle do not count",
                    ),
                    &["name", "verb"],
                )?,
            }),
            waits: HistogramVec::new(waits.buckets(WAITS.to_vec()), &["name", "outcome"])?,
            lingered: IntCounterVec::new(
                Opts::new(
                    "steersman_cache_informers_lingered_total",
                    "Informers that ended because nobody declared or used them",
                ),
                &["name"],
            )?,
        };
        registry.register(Box::new(Shown(Arc::clone(&metrics.reads))))?;
        registry.register(Box::new(metrics.waits.clone()))?;
        registry.register(Box::new(metrics.lingered.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn informers(&self) -> &InformerMetrics {
        &self.informers
    }

    /// Where one cache counts its reads of a kind: its own, which no other cache writes.
    pub(crate) fn reads_of(&self, name: String) -> Arc<ReadCounts> {
        let counts = Arc::<ReadCounts>::default();
        let mut all = self.reads.counts.lock();
        all.push((name, Arc::clone(&counts)));
        counts
    }

    pub(crate) fn waited(&self, name: &str, outcome: Outcome, time: Duration) {
        let outcome = match outcome {
            Outcome::Synced => "synced",
            Outcome::Unavailable => "unavailable",
            Outcome::Timeout => "timeout",
            Outcome::Stopped => "stopped",
        };
        let waits = self.waits.with_label_values(&[name, outcome]);
        waits.observe(time.as_secs_f64());
    }

    pub(crate) fn lingered(&self, name: &str) {
        self.lingered.with_label_values(&[name]).inc();
    }
}

impl ReadCounts {
    /// Counts a read.
    pub(crate) fn count(&self, verb: Verb) {
        let reads = match verb {
            Verb::Get => &self.gets,
            Verb::List => &self.lists,
        };
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Collector for Shown {
    fn desc(&self) -> Vec<&Desc> {
        self.0.shown.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The lock is held to the end: two who ask at once would add to the same sums.
        let counts = self.0.counts.lock();
        self.0.shown.reset();
        for (name, counts) in counts.iter() {
            for (verb, reads) in [("get", &counts.gets), ("list", &counts.lists)] {
                let shown = self.0.shown.with_label_values(&[name.as_str(), verb]);
                shown.inc_by(reads.load(Ordering::Relaxed));
            }
        }
        self.0.shown.collect()
    }
}
