//! Driver: collects the gauges of all informers when metrics are gathered.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use tokio::time::Instant;

use super::gauges::{Gauges, Sum};

/// The gauges of the existing informers, by the name of their kind.
#[derive(Debug, Default)]
pub(crate) struct LiveGauges {
    by_name: Mutex<BTreeMap<String, Vec<Weak<Gauges>>>>,
}

/// A collector that adds up the informers of each kind. A kind without an informer has no series.
#[derive(Debug)]
pub(crate) struct Scrape {
    living: Arc<LiveGauges>,
    objects: GaugeVec,
    malformed: GaugeVec,
    bytes: GaugeVec,
    packed: GaugeVec,
    decoded: GaugeVec,
    queued: GaugeVec,
    version: GaugeVec,
    event_age: GaugeVec,
    bookmark_age: GaugeVec,
    states: GaugeVec,
    /// Serialises collections, which share the metric vectors.
    turn: Mutex<()>,
}

impl LiveGauges {
    pub(crate) fn add(&self, name: &str, gauges: &Arc<Gauges>) {
        let mut by_name = self.by_name.lock();
        let of_kind = by_name.entry(name.to_owned()).or_default();
        of_kind.retain(|gauges| gauges.strong_count() > 0);
        of_kind.push(Arc::downgrade(gauges));
    }

    fn sums(&self) -> Vec<(String, Sum)> {
        let now = Instant::now().into_std();
        let mut by_name = self.by_name.lock();
        by_name.retain(|_, of_kind| {
            of_kind.retain(|gauges| gauges.strong_count() > 0);
            !of_kind.is_empty()
        });
        let sums = by_name.iter().map(|(name, of_kind)| {
            let mut sum = Sum::default();
            for gauges in of_kind.iter().filter_map(Weak::upgrade) {
                sum.add(&gauges, now);
            }
            (name.clone(), sum)
        });
        sums.filter(|(_, sum)| !sum.states.is_empty()).collect()
    }
}

impl Scrape {
    pub(crate) fn new(living: Arc<LiveGauges>) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &["name"]);
        Ok(Self {
            living,
            objects: gauge(
                "steersman_informer_objects",
                "Objects in the stores of a kind",
            )?,
            malformed: gauge(
                "steersman_informer_malformed_objects",
                "Objects that do not decode",
            )?,
            bytes: gauge(
                "steersman_informer_bytes",
                "JSON of the objects in the stores of a kind, in bytes",
            )?,
            packed: gauge(
                "steersman_informer_packed_bytes",
                "Packed bytes of the objects of a kind",
            )?,
            decoded: gauge(
                "steersman_informer_decoded_bytes",
                "Estimated bytes of the cached decoded objects of a kind",
            )?,
            queued: gauge(
                "steersman_informer_queued_deltas",
                "Deltas that wait for the stores of a kind; a list is one delta",
            )?,
            version: gauge(
                "reflector_last_resource_version",
                "The last 15 digits of the version up to which everything was applied",
            )?,
            event_age: gauge(
                "steersman_informer_last_event_age_seconds",
                "How long ago the last event or list came",
            )?,
            bookmark_age: gauge(
                "steersman_informer_last_bookmark_age_seconds",
                "How long ago the last bookmark came",
            )?,
            states: GaugeVec::new(
                Opts::new("steersman_informers", "Informers, by state"),
                &["name", "state"],
            )?,
            turn: Mutex::new(()),
        })
    }

    fn families(&self) -> [&GaugeVec; 10] {
        [
            &self.objects,
            &self.malformed,
            &self.bytes,
            &self.packed,
            &self.decoded,
            &self.queued,
            &self.version,
            &self.event_age,
            &self.bookmark_age,
            &self.states,
        ]
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "objects and bytes are fewer than 2^53, and a version has 15 digits"
    )]
    fn show(&self, name: &str, sum: &Sum) {
        let set = |family: &GaugeVec, value: f64| family.with_label_values(&[name]).set(value);
        set(&self.objects, sum.objects as f64);
        set(&self.malformed, sum.malformed as f64);
        set(&self.bytes, sum.bytes as f64);
        set(&self.packed, sum.packed as f64);
        set(&self.decoded, sum.decoded as f64);
        set(&self.queued, sum.queued as f64);
        if let Some(version) = sum.version {
            set(&self.version, version as f64);
        }
        if let Some(age) = sum.event_age {
            set(&self.event_age, age.as_secs_f64());
        }
        if let Some(age) = sum.bookmark_age {
            set(&self.bookmark_age, age.as_secs_f64());
        }
        for (state, informers) in &sum.states {
            let of_state = self.states.with_label_values(&[name, state]);
            of_state.set(f64::from(*informers));
        }
    }
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        let families = self.families().into_iter();
        families.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _turn = self.turn.lock();
        for family in self.families() {
            family.reset();
        }
        for (name, sum) in self.living.sums() {
            self.show(&name, &sum);
        }
        let families = self.families().into_iter();
        families.flat_map(Collector::collect).collect()
    }
}
