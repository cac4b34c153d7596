//! Machine: when a candidate may take the Lease, by what it observed and when.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;

use crate::record::LeaseRecord;

/// What one candidate knows of the Lease and of its earlier holders.
///
/// All times are local: the times inside the Lease come from the clocks of other machines and decide nothing
/// (LEASE-2).
#[derive(Debug)]
pub(crate) struct Candidacy {
    identity: String,
    observed: Option<ObservedLease>,
    /// The instant until which the holder of a deleted or overwritten Lease may work.
    displaced_until: Option<Instant>,
    /// Whether the candidate ever read or wrote the Lease.
    has_seen_lease: bool,
}

/// The Lease as it was last read or written.
#[derive(Debug)]
pub(crate) struct ObservedLease {
    pub(crate) lease: Lease,
    pub(crate) record: LeaseRecord,
    /// When the record was observed to change.
    pub(crate) changed: Instant,
}

/// Whether the Lease can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No holder can work.
    Free,
    /// A holder may work until this instant; never, if there is none.
    HeldUntil(Option<Instant>),
}

impl Candidacy {
    pub(crate) fn new(identity: String) -> Self {
        Self {
            identity,
            observed: None,
            displaced_until: None,
            has_seen_lease: false,
        }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    pub(crate) fn observed(&self) -> Option<&ObservedLease> {
        self.observed.as_ref()
    }

    /// Returns whether the candidate ever read or wrote the Lease.
    pub(crate) fn has_seen_lease(&self) -> bool {
        self.has_seen_lease
    }

    /// Returns whether this candidate is the holder in the observed Lease.
    pub(crate) fn is_holder(&self) -> bool {
        let observed = self.observed.as_ref();
        observed.is_some_and(|observed| observed.record.holder == self.identity)
    }

    /// Records a Lease that was read, or that this candidate wrote, at `now`.
    pub(crate) fn observe(&mut self, lease: Lease, now: Instant) {
        let record = LeaseRecord::of(&lease);
        let changed = match self.observed.take() {
            // Labels and annotations may change without a renewal.
            Some(before) if before.record == record => before.changed,
            Some(before) => {
                let same_holder = before.record.holder == record.holder;
                if !same_holder && !before.record.is_released_by(&record) {
                    self.displace(&before.record, now);
                }
                now
            }
            None => {
                // A holder that was cleared before the first look is unknown. It may work as long as the Lease says;
                // the Lease of a holder that released it says one second.
                if !self.has_seen_lease && record.holder.is_empty() && record.seconds > 1 {
                    self.displaced_until = later(self.displaced_until, now, record.duration());
                }
                now
            }
        };
        self.has_seen_lease = true;
        self.observed = Some(ObservedLease {
            lease,
            record,
            changed,
        });
    }

    /// Records at `now` that the Lease is absent.
    pub(crate) fn observe_absence(&mut self, now: Instant) {
        if let Some(before) = self.observed.take() {
            self.displace(&before.record, now);
        }
    }

    /// LEASE-3: a holder that did not release the Lease may have renewed it until just before `now`.
    fn displace(&mut self, before: &LeaseRecord, now: Instant) {
        if !before.holder.is_empty() && before.holder != self.identity {
            self.displaced_until = later(self.displaced_until, now, before.duration());
        }
    }

    /// Returns whether the Lease can be taken at `now`.
    pub(crate) fn claim(&self, now: Instant) -> Claim {
        let held_until = match &self.observed {
            Some(ObservedLease {
                record, changed, ..
            }) if !record.holder.is_empty() && record.holder != self.identity => {
                // LEASE-2: a duration beyond the clock never expires.
                match changed.checked_add(record.duration()) {
                    None => return Claim::HeldUntil(None),
                    some => some,
                }
            }
            _ => None,
        };
        match held_until.max(self.displaced_until) {
            Some(until) if until > now => Claim::HeldUntil(Some(until)),
            _ => Claim::Free,
        }
    }
}

/// Returns the later one of an instant and the end of a duration.
fn later(instant: Option<Instant>, now: Instant, duration: Duration) -> Option<Instant> {
    // An end beyond the clock is a duration that another program wrote; a year is long enough.
    let year = Duration::from_secs(365 * 24 * 3600);
    instant.max(now.checked_add(duration.min(year)))
}
