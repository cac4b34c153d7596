//! Machine: the groups of similar events and the rate limit of one object.

use std::time::Instant;

use crate::event_group::{EventGroup, Membership};
use crate::event_limits::EventLimits;
use crate::series::Similarity;
use crate::token_bucket::TokenBucket;

#[derive(Debug)]
pub(crate) struct ObjectEvents {
    groups: Vec<EventGroup>,
    bucket: TokenBucket,
    /// The timer of the object, which fires no later than the next change is due.
    pub(crate) timer: (Instant, u64),
}

impl ObjectEvents {
    pub(crate) fn new(timer: (Instant, u64), now: Instant, limits: &EventLimits) -> Self {
        Self {
            groups: Vec::new(),
            bucket: TokenBucket::full(now, limits),
            timer,
        }
    }

    /// Returns the series that an event repeats, if any, and records the time of the event.
    pub(crate) fn member(
        &mut self,
        similarity: &Similarity,
        note: u64,
        now: Instant,
        limits: &EventLimits,
    ) -> Membership {
        let mut groups = self.groups.iter_mut();
        let Some(group) = groups.find(|group| *group.similarity == *similarity) else {
            return Membership::New;
        };
        let membership = group.member(note, now, limits);
        if let Membership::Repeats(_) = membership {
            group.seen(now);
        }
        membership
    }

    /// EVENT-5: takes a token for a new Event; `false` if there is none, or too many Events are followed.
    pub(crate) fn take_token(&mut self, now: Instant, limits: &EventLimits) -> bool {
        let followed = u32::try_from(self.members().count()).unwrap_or(u32::MAX);
        followed < limits.burst && self.bucket.take(now, limits)
    }

    /// Adds the series of a new Event and returns its group. `note` is `None` for the combined Event.
    pub(crate) fn add(
        &mut self,
        similarity: Similarity,
        note: Option<u64>,
        series: u64,
        now: Instant,
    ) -> &EventGroup {
        let mut groups = self.groups.iter();
        let at = groups.position(|group| *group.similarity == similarity);
        let at = at.unwrap_or_else(|| {
            self.groups.push(EventGroup::new(similarity, now));
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.seen(now);
        group.add(note, series);
        group
    }

    pub(crate) fn remove(&mut self, series: u64) {
        for group in &mut self.groups {
            group.remove(series);
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = u64> {
        let members = self.groups.iter().flat_map(|group| &group.members);
        members.map(|(_, series)| *series)
    }

    /// Forgets groups that have ended. Returns when the next group, or the object, can be forgotten; `None` if the
    /// object can be forgotten now.
    pub(crate) fn expire(&mut self, now: Instant, limits: &EventLimits) -> Option<Instant> {
        let goes_on = |group: &EventGroup| group.ends_at(limits).is_none_or(|end| end > now);
        self.groups.retain(goes_on);
        let ends = self.groups.iter().filter_map(|group| group.ends_at(limits));
        let (ends, full) = (ends.min(), self.bucket.full_at(limits));
        match (ends, self.groups.is_empty()) {
            (Some(end), _) => Some(end),
            (None, true) => Some(full).filter(|full| *full > now),
            // Every group follows an Event, so the deadlines of these Events decide.
            (None, false) => Some(now + limits.finish),
        }
    }
}
