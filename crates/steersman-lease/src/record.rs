//! Words: the content of a Lease.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use steersman_object::ObjectKey;

/// The fields of a Lease that an election reads and writes (client-go, `LeaderElectionRecord`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// The identity of the holder; empty if there is none.
    pub(crate) holder: String,
    /// The duration for which the lease is valid after a change, as the holder wrote it.
    pub(crate) seconds: i32,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i32,
}

/// The lease duration in a released Lease (client-go, `release`).
const RELEASED_SECONDS: i32 = 1;

impl LeaseRecord {
    /// Reads the record of a Lease; fields that are absent are empty or zero.
    pub(crate) fn of(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else {
            return Self::default();
        };
        let time = |time: &Option<MicroTime>| time.as_ref().map(|time| time.0);
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Returns the record with which a holder releases the Lease.
    pub(crate) fn released(&self, wall: Timestamp) -> Self {
        Self {
            holder: String::new(),
            seconds: RELEASED_SECONDS,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: self.transitions,
        }
    }

    /// Returns whether a holder with this record released the Lease by writing `next`: another program that takes
    /// the Lease counts a transition, and one that only clears the holder leaves the lease duration.
    pub(crate) fn is_released_by(&self, next: &Self) -> bool {
        next.holder.is_empty()
            && next.seconds == RELEASED_SECONDS
            && next.transitions == self.transitions
    }

    /// Returns how long the lease is valid after this record was observed to change.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.seconds).unwrap_or_default())
    }

    /// Writes the record into a Lease. Other fields are kept.
    pub(crate) fn write(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.seconds);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }
}

/// Returns a Lease without content.
pub(crate) fn empty_lease(key: &ObjectKey) -> Lease {
    Lease {
        metadata: key.to_meta(),
        ..Lease::default()
    }
}

/// Adds labels to a Lease, and removes none.
pub(crate) fn add_labels(lease: &mut Lease, labels: &BTreeMap<String, String>) {
    if !labels.is_empty() {
        let present = lease.metadata.labels.get_or_insert_default();
        present.extend(labels.clone());
    }
}
