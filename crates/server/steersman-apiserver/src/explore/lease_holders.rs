//! Machine: which process of an operator holds which Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steersman_explore::{ObjectChange, ObjectId, OperatorRequest, RequestVerb};

/// The resource of leader elections.
const LEASES: &str = "leases.coordination.k8s.io";

/// How long after the creation of a Lease a leader may wait before it works: an elector of Steersman waits two retry periods,
/// until a leader that does not know of the new Lease has noticed it.
const HOLD: Duration = Duration::from_secs(4);

/// The longest time in which another candidate takes the Lease of a process that was killed: twice the usual duration of a
/// Lease.
const LONGEST_TAKEOVER: Duration = Duration::from_secs(30);

/// The holders of the Leases that an operator writes.
#[derive(Debug, Default)]
pub(super) struct LeaseHolders {
    /// Whether the operator writes Leases, as candidates of an election do.
    elects: bool,
    /// The process that holds each Lease; `None` for a Lease that was released.
    holders: BTreeMap<ObjectId, Option<usize>>,
    /// When a process last took a Lease, and when a process last ended.
    led_at: Duration,
    lost_at: Duration,
}

impl LeaseHolders {
    /// Notes whether the operator elects a leader. One that did goes on to.
    pub(super) fn note_election(&mut self, elects: bool) {
        self.elects |= elects;
    }

    /// Returns whether a request writes a Lease.
    pub(super) fn is_write(request: &OperatorRequest) -> bool {
        request.resource == LEASES && request.verb.is_write()
    }

    /// Notes a write of a Lease that succeeded. Returns its holder if that is another one than before, and when the holder
    /// works at the latest; the holder is `None` after a release.
    pub(super) fn note(
        &mut self,
        now: Duration,
        request: &OperatorRequest,
        change: &ObjectChange,
    ) -> Option<(Option<usize>, Duration)> {
        let after = change.after.as_ref()?;
        let holder = after["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let holder = (!holder.is_empty()).then_some(request.process);
        let before = self.holders.insert(change.id.clone(), holder);
        if before == Some(holder) {
            return None;
        }
        self.led_at = match request.verb {
            RequestVerb::Create => now + HOLD,
            _ => now,
        };
        Some((holder, self.led_at))
    }

    /// Notes the end of a process.
    pub(super) fn note_end(&mut self, now: Duration) {
        self.lost_at = now;
    }

    /// Returns whether a running process holds a Lease, or none needs one.
    pub(super) fn leads(&self, live: &BTreeSet<usize>) -> bool {
        let mut holders = self.holders.values().flatten();
        !self.elects || holders.any(|holder| live.contains(holder))
    }

    /// Returns when a running process leads: when it took its Lease, or, if none leads yet, when the Lease of an ended
    /// process has been taken at the latest.
    pub(super) fn leads_by(&self, live: &BTreeSet<usize>) -> Duration {
        if self.leads(live) {
            self.led_at
        } else {
            self.lost_at + LONGEST_TAKEOVER
        }
    }
}
