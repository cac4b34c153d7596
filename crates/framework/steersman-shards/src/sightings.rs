//! Machine: judges by local observation which members have expired.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::record::GroupSnapshot;

/// What this member has seen of the Leases of the others.
///
/// No time inside a Lease counts (LEASE-2). A member stops its work when its renew deadline has passed since it sent its
/// last successful renewal. So a version that is still listed the lease duration after it was first seen is that of a
/// member that has stopped.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    seen: BTreeMap<String, Sighting>,
}

#[derive(Debug)]
struct Sighting {
    /// The resource version of the Lease; empty for a Lease that is gone.
    version: String,
    /// When the first list with this version was received.
    since: Instant,
    /// When the latest list with this version was sent.
    until: Instant,
}

impl Sightings {
    /// Notes a list: when it was sent, and when it was received. Members without a Lease are remembered until
    /// [`forget`](Self::forget).
    pub(crate) fn note(&mut self, snapshot: &GroupSnapshot, sent: Instant, received: Instant) {
        for (name, sighting) in &mut self.seen {
            if !snapshot.members.contains_key(name) {
                sighting.note("", sent, received);
            }
        }
        for (name, member) in &snapshot.members {
            self.sighting(name, received)
                .note(&member.version, sent, received);
        }
    }

    /// Notes a member that an assignment names and no list shows.
    pub(crate) fn note_absent(&mut self, name: &str, received: Instant) {
        self.sighting(name, received);
    }

    fn sighting(&mut self, name: &str, received: Instant) -> &mut Sighting {
        self.seen
            .entry(name.to_owned())
            .or_insert_with(|| Sighting {
                version: String::new(),
                since: received,
                until: received,
            })
    }

    /// Returns for how long a member has shown no renewal. A Lease that is gone may have been there between two lists, so
    /// its absence counts from `given` on: from the list that first showed the grant that the caller asks about. The
    /// member could renew after that list only by making its Lease again, and would list the grant then.
    pub(crate) fn silent_for(&self, name: &str, given: Option<Instant>) -> Duration {
        let Some(sighting) = self.seen.get(name) else {
            return Duration::ZERO;
        };
        let since = match given.filter(|_| sighting.version.is_empty()) {
            Some(given) => sighting.since.max(given),
            None => sighting.since,
        };
        sighting.until.saturating_duration_since(since)
    }

    /// Returns the members that have been seen within a time.
    pub(crate) fn seen_within(&self, time: Duration) -> impl Iterator<Item = &str> {
        let seen = self.seen.iter();
        seen.filter(move |(_, one)| one.silent() < time)
            .map(|(name, _)| name.as_str())
    }

    /// Forgets the members without a Lease for a time that no assignment names.
    pub(crate) fn forget(&mut self, time: Duration, is_named: impl Fn(&str) -> bool) {
        self.seen
            .retain(|name, one| !one.version.is_empty() || one.silent() < time || is_named(name));
    }
}

impl Sighting {
    fn silent(&self) -> Duration {
        self.until.saturating_duration_since(self.since)
    }

    fn note(&mut self, version: &str, sent: Instant, received: Instant) {
        if self.version == version {
            self.until = self.until.max(sent);
            return;
        }
        *self = Self {
            version: version.to_owned(),
            since: received,
            until: received,
        };
    }
}
