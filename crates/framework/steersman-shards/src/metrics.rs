//! Words: the metrics of the shards of a replica.

use prometheus::{
    HistogramVec, IntCounterVec, IntGaugeVec, Registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
};
use std::time::Duration;
use steersman_object::SlotSet;

/// The metrics of shards in one registry. Cheap to clone. The label `name` is the name of the group.
#[derive(Clone, Debug)]
pub struct ShardMetrics {
    owned: IntGaugeVec,
    members: IntGaugeVec,
    gained: IntCounterVec,
    released: IntCounterVec,
    handover: HistogramVec,
}

/// The bounds of the times of a hand-over, in seconds: from a change that all members see at once to a crash.
const SECONDS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];

impl ShardMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names: create one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            owned: register_int_gauge_vec_with_registry!(
                "steersman_shard_slots",
                "The number of the 256 slots of shards that this replica owns",
                &["name"],
                registry
            )?,
            members: register_int_gauge_vec_with_registry!(
                "steersman_shard_members",
                "The number of replicas that share the work, as this replica sees it",
                &["name"],
                registry
            )?,
            gained: register_int_counter_vec_with_registry!(
                "steersman_shard_slots_gained_total",
                "The number of slots that this replica has gained",
                &["name"],
                registry
            )?,
            released: register_int_counter_vec_with_registry!(
                "steersman_shard_slots_released_total",
                "The number of slots that this replica has released or lost",
                &["name"],
                registry
            )?,
            handover: register_histogram_vec_with_registry!(
                "steersman_shard_handover_seconds",
                "The time from the assignment of slots to this replica until their former owners had stopped",
                &["name"],
                SECONDS.to_vec(),
                registry
            )?,
        })
    }

    pub(crate) fn set(&self, group: &str, before: &SlotSet, owned: &SlotSet, members: usize) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.owned
            .with_label_values(&[group])
            .set(count(owned.len()));
        self.members.with_label_values(&[group]).set(count(members));
        for (counter, moved) in [
            (&self.gained, owned.difference(before)),
            (&self.released, before.difference(owned)),
        ] {
            counter
                .with_label_values(&[group])
                .inc_by(moved.len() as u64);
        }
    }

    pub(crate) fn handed_over(&self, group: &str, time: Duration) {
        self.handover
            .with_label_values(&[group])
            .observe(time.as_secs_f64());
    }
}
