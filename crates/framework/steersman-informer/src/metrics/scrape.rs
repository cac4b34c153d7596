//! Driver: collects the gauges of all informers when metrics are gathered.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use steersman_api::clock::now;

use super::gauges::{Gauges, Sum};

/// The gauges of all informers, by the name of their kind.
#[derive(Debug, Default)]
pub(crate) struct LiveGauges {
    by_name: Mutex<BTreeMap<String, Vec<Weak<Gauges>>>>,
}

/// A collector that sums the gauges of all informers of each kind. A kind without an informer has no series.
#[derive(Debug)]
pub(crate) struct Scrape {
    living: Arc<LiveGauges>,
    /// The gauge vectors, one per entry of [`GAUGES`].
    families: Vec<GaugeVec>,
    states: GaugeVec,
    /// Serialises collections, because they share the gauge vectors.
    turn: Mutex<()>,
}

/// The name and the help of a gauge, and a function for its value; `None` for no series.
type SumGauge = (&'static str, &'static str, fn(&Sum) -> Option<f64>);

const GAUGES: [SumGauge; 9] = [
    (
        "steersman_informer_objects",
        "Objects in the stores of a kind",
        |sum| Some(sum.objects as f64),
    ),
    (
        "steersman_informer_malformed_objects",
        "Objects that do not decode",
        |sum| Some(sum.malformed as f64),
    ),
    (
        "steersman_informer_bytes",
        "JSON of the objects in the stores of a kind, in bytes",
        |sum| Some(sum.bytes as f64),
    ),
    (
        "steersman_informer_packed_bytes",
        "Packed bytes of the objects of a kind",
        |sum| Some(sum.packed as f64),
    ),
    (
        "steersman_informer_decoded_bytes",
        "Estimated bytes of the cached decoded objects of a kind",
        |sum| Some(sum.decoded as f64),
    ),
    (
        "steersman_informer_queued_deltas",
        "Deltas that wait for the stores of a kind; a list is one delta",
        |sum| Some(sum.queued as f64),
    ),
    (
        "reflector_last_resource_version",
        "The last 15 digits of the version up to which everything was applied",
        |sum| sum.version.map(|version| version as f64),
    ),
    (
        "steersman_informer_last_event_age_seconds",
        "How long ago the last event or list came",
        |sum| sum.event_age.map(|age| age.as_secs_f64()),
    ),
    (
        "steersman_informer_last_bookmark_age_seconds",
        "How long ago the last bookmark came",
        |sum| sum.bookmark_age.map(|age| age.as_secs_f64()),
    ),
];

impl LiveGauges {
    pub(crate) fn add(&self, name: &str, gauges: &Arc<Gauges>) {
        let mut by_name = self.by_name.lock();
        let of_kind = by_name.entry(name.to_owned()).or_default();
        of_kind.retain(|gauges| gauges.strong_count() > 0);
        of_kind.push(Arc::downgrade(gauges));
    }

    fn sums(&self) -> Vec<(String, Sum)> {
        let now = now();
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
        let families = GAUGES
            .iter()
            .map(|(name, help, _)| GaugeVec::new(Opts::new(*name, *help), &["name"]));
        Ok(Self {
            living,
            families: families.collect::<prometheus::Result<_>>()?,
            states: GaugeVec::new(
                Opts::new("steersman_informers", "Informers, by state"),
                &["name", "state"],
            )?,
            turn: Mutex::new(()),
        })
    }

    fn families(&self) -> impl Iterator<Item = &GaugeVec> {
        self.families.iter().chain([&self.states])
    }

    fn show(&self, name: &str, sum: &Sum) {
        for (family, (_, _, value)) in self.families.iter().zip(GAUGES) {
            if let Some(value) = value(sum) {
                family.with_label_values(&[name]).set(value);
            }
        }
        for (state, informers) in &sum.states {
            let of_state = self.states.with_label_values(&[name, state]);
            of_state.set(f64::from(*informers));
        }
    }
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        self.families().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _turn = self.turn.lock();
        for family in self.families() {
            family.reset();
        }
        for (name, sum) in self.living.sums() {
            self.show(&name, &sum);
        }
        self.families().flat_map(Collector::collect).collect()
    }
}
