//! Machine: decides when a candidate may take the Lease, from its own observations.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;

use crate::record::LeaseRecord;
use crate::term_clock::TermClock;

/// The observations of one candidate about the Lease and its earlier holders.
///
/// All times are local: none is compared with the times inside the Lease, which other clocks made (LEASE-2).
#[derive(Debug, Default)]
pub(crate) struct Candidacy {
    identity: String,
    /// The lease duration of this candidate in seconds, also used for a Lease that states none.
    own_seconds: i32,
    observed: Option<ObservedLease>,
    /// The instant until which the holder of a deleted or overwritten Lease may still work.
    displaced_until: Option<Instant>,
    /// Whether the Lease is absent, and named another holder when it was last read.
    pub(crate) is_holder_deleted: bool,
}

#[derive(Debug)]
pub(crate) struct ObservedLease {
    pub(crate) lease: Lease,
    pub(crate) record: LeaseRecord,
    pub(crate) changed: Instant,
    /// When the record was first read, or when the response to its write arrived.
    seen: Instant,
    /// The holder's clock in the Lease, if the holder wrote it.
    clock: Option<TermClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Free,
    /// The holder may work until this instant; without an instant, for ever.
    HeldUntil(Option<Instant>),
}

impl Candidacy {
    pub(crate) fn new(identity: String, own_seconds: i32) -> Self {
        Self {
            identity,
            own_seconds,
            ..Self::default()
        }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    pub(crate) fn observed(&self) -> Option<&ObservedLease> {
        self.observed.as_ref()
    }

    pub(crate) fn read(&self, lease: &Lease) -> LeaseRecord {
        LeaseRecord::of(lease, self.own_seconds)
    }

    pub(crate) fn is_holder(&self) -> bool {
        let observed = self.observed.as_ref();
        observed.is_some_and(|observed| observed.record.holder == self.identity)
    }

    pub(crate) fn handle_lease(&mut self, lease: Lease, now: Instant) {
        let record = self.read(&lease);
        let clock = TermClock::of(&lease, &record);
        let before = self.observed.take();
        let (changed, seen) = match &before {
            // Other fields, such as labels, may change without a renewal.
            Some(before) if before.record == record => (before.changed, before.seen),
            _ => {
                if let Some(before) = &before
                    && !before.record.is_renewed_or_released_by(&record)
                {
                    self.displace(&before.record, now);
                }
                // LEASE-3: if the holder field was cleared, an unknown holder may have worked in between, for the
                // duration in the Lease. A released Lease has a duration of one second.
                if record.holder.is_empty() && !record.is_released() {
                    self.displaced_until = later(self.displaced_until, now, record.duration());
                }
                let before = before.as_ref();
                let sent = before.and_then(|before| before.latest_send(&record, clock));
                (sent.map_or(now, |sent| sent.min(now)), now)
            }
        };
        self.is_holder_deleted = false;
        self.observed = Some(ObservedLease {
            lease,
            record,
            changed,
            seen,
            clock,
        });
    }

    pub(crate) fn handle_absence(&mut self, now: Instant) {
        if let Some(before) = self.observed.take() {
            self.is_holder_deleted = self.is_another(&before.record.holder);
            self.displace(&before.record, now);
        }
    }

    fn is_another(&self, holder: &str) -> bool {
        !holder.is_empty() && holder != self.identity
    }

    /// LEASE-3: a holder that did not release the Lease may have renewed it just before `now`.
    fn displace(&mut self, before: &LeaseRecord, now: Instant) {
        if self.is_another(&before.holder) {
            self.displaced_until = later(self.displaced_until, now, before.duration());
        }
    }

    pub(crate) fn next_claim(&self, now: Instant) -> Claim {
        let held_until = match &self.observed {
            Some(ObservedLease {
                record, changed, ..
            }) if self.is_another(&record.holder) => {
                // LEASE-2: a duration beyond the range of the clock never expires.
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

impl ObservedLease {
    /// Returns the latest instant at which the holder can have sent the renewal `next`: the time at which the known
    /// record was seen, plus the difference that the holder's clock shows between both. `None` if the holder wrote no
    /// clock, or is another one.
    ///
    /// LEASE-2: only differences between two times of one holder count, and of those the longer one: the monotonic
    /// clock stands while a machine is suspended, and the wall clock may be set back. Each difference starts at a
    /// record that was read, because clock rates differ and errors would add up.
    fn latest_send(&self, next: &LeaseRecord, clock: Option<TermClock>) -> Option<Instant> {
        let now = &self.record;
        let is_same_term = now.holder == next.holder
            && now.acquired == next.acquired
            && now.transitions == next.transitions;
        if !is_same_term || now.acquired.is_none() {
            return None;
        }
        let on_clock = clock?.since(self.clock?)?;
        let on_wall = next.renewed?.duration_since(now.renewed?);
        let on_wall = Duration::try_from(on_wall).unwrap_or_default();
        self.seen.checked_add(on_clock.max(on_wall))
    }
}

/// Returns the later of `instant` and the end of `duration`.
fn later(instant: Option<Instant>, now: Instant, duration: Duration) -> Option<Instant> {
    // A longer duration is out of the clock's range, and another program must have written it: a year is long enough.
    let year = Duration::from_secs(365 * 24 * 3600);
    instant.max(now.checked_add(duration.min(year)))
}
