//! Words: what informers count.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The counters of all informers of one registry; cheap to clone.
///
/// The names of the first two are client-go's; their label `name` is `Kind.version.group`.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    lists: IntCounterVec,
    watches: IntCounterVec,
    failures: IntCounterVec,
    events: IntCounterVec,
    objects: IntGaugeVec,
    malformed: IntGaugeVec,
}

/// The counters of one informer; counts nothing where there is no registry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    of: Option<(InformerMetrics, String)>,
    share: Option<Arc<Share>>,
}

/// What one informer adds to the gauges of its kind, which several may have: one per namespace.
#[derive(Debug)]
struct Share {
    objects: IntGauge,
    malformed: IntGauge,
    /// What was added last.
    added: Mutex<(i64, i64)>,
}

impl InformerMetrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    ///
    /// Where the registry has metrics of these names: make one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGaugeVec::new(Opts::new(name, help), &["name"])?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        Ok(Self {
            lists: counter(
                "reflector_lists_total",
                "Lists begun by reflectors; a streaming list is one of them",
                &["name"],
            )?,
            watches: counter(
                "reflector_watches_total",
                "Watches opened by reflectors",
                &["name"],
            )?,
            failures: counter(
                "steersman_reflector_failures_total",
                "Requests of reflectors that failed, by reason",
                &["name", "reason"],
            )?,
            events: counter(
                "steersman_informer_events_total",
                "Changes of stored objects, by type",
                &["name", "type"],
            )?,
            objects: gauge(
                "steersman_informer_objects",
                "Objects in the stores of a kind",
            )?,
            malformed: gauge(
                "steersman_informer_malformed_objects",
                "Objects that do not decode, kept aside",
            )?,
        })
    }
}

impl Counters {
    pub(crate) fn new(metrics: Option<InformerMetrics>, name: impl Into<String>) -> Self {
        let of = metrics.map(|metrics| (metrics, name.into()));
        let share = of.as_ref().map(|(metrics, name)| {
            Arc::new(Share {
                objects: metrics.objects.with_label_values(&[name]),
                malformed: metrics.malformed.with_label_values(&[name]),
                added: Mutex::default(),
            })
        });
        Self { of, share }
    }

    pub(crate) fn list(&self) {
        if let Some((metrics, name)) = &self.of {
            metrics.lists.with_label_values(&[name]).inc();
        }
    }

    pub(crate) fn watch(&self) {
        if let Some((metrics, name)) = &self.of {
            metrics.watches.with_label_values(&[name]).inc();
        }
    }

    pub(crate) fn failure(&self, reason: &str) {
        if let Some((metrics, name)) = &self.of {
            let labels = [name.as_str(), reason];
            metrics.failures.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn event(&self, what: &str) {
        if let Some((metrics, name)) = &self.of {
            let labels = [name.as_str(), what];
            metrics.events.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn stored(&self, objects: usize, malformed: usize) {
        if let Some(share) = &self.share {
            let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            share.set(count(objects), count(malformed));
        }
    }
}

impl Share {
    fn set(&self, objects: i64, malformed: i64) {
        let mut added = self.added.lock();
        self.objects.add(objects - added.0);
        self.malformed.add(malformed - added.1);
        *added = (objects, malformed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informers_of_one_kind_share_its_gauges() {
        let metrics = InformerMetrics::register(&Registry::new()).unwrap();
        let counters = || Counters::new(Some(metrics.clone()), "Pod.v1");
        let (one, another) = (counters(), counters());
        one.stored(3, 1);
        another.stored(4, 0);
        another.stored(2, 0);
        let stored = || {
            let label = &["Pod.v1"];
            let objects = metrics.objects.with_label_values(label).get();
            (objects, metrics.malformed.with_label_values(label).get())
        };
        assert_eq!(stored(), (5, 1));
        drop(one);
        assert_eq!(stored(), (2, 0));
    }
}
