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
    /// The identity of the holder; empty without a holder.
    pub(crate) holder: String,
    /// The lease duration in seconds, as the holder wrote it.
    pub(crate) seconds: i32,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i32,
}

/// The lease duration in a released Lease (client-go, `release`).
const RELEASED_SECONDS: i32 = 1;

impl LeaseRecord {
    /// Reads the record of a Lease; absent fields are empty or zero. An absent lease duration becomes `own_seconds`,
    /// because with zero the Lease would be taken at once.
    pub(crate) fn of(lease: &Lease, own_seconds: i32) -> Self {
        let Some(spec) = &lease.spec else {
            return Self {
                seconds: own_seconds,
                ..Self::default()
            };
        };
        let time = |time: &Option<MicroTime>| time.as_ref().map(|time| time.0);
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or(own_seconds),
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    pub(crate) fn released(&self, wall: Timestamp) -> Self {
        Self {
            holder: String::new(),
            seconds: RELEASED_SECONDS,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: self.transitions,
        }
    }

    /// Returns whether this is a released Lease. One that lost its holder otherwise keeps its lease duration.
    pub(crate) fn is_released(&self) -> bool {
        self.holder.is_empty() && self.seconds == RELEASED_SECONDS
    }

    /// Returns whether the holder of this record may have written `next`, as a renewal or release. Another program that
    /// takes the Lease increases `transitions`, and no renewal shortens the lease duration.
    pub(crate) fn is_renewed_or_released_by(&self, next: &Self) -> bool {
        if next.holder == self.holder {
            return next.seconds >= self.seconds;
        }
        next.is_released() && next.transitions == self.transitions
    }

    /// Returns how long the lease is valid after a candidate has seen this record appear.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.seconds).unwrap_or_default())
    }

    /// Writes the record into a Lease, and keeps all other fields.
    pub(crate) fn write(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.seconds);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }
}

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
