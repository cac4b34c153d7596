//! Machine: decides which similar events of one object get their own Event.

use std::sync::Arc;
use std::time::Instant;

use crate::event_limits::EventLimits;
use crate::series::Similarity;

/// Similar events of one object, which differ only in their notes.
#[derive(Debug)]
pub(crate) struct EventGroup {
    pub(crate) similarity: Arc<Similarity>,
    /// The hashes of the notes with their own Event, since the last window without an event.
    notes: Vec<u64>,
    /// The followed Events: the hash of the note (`None` for the combined Event), and the number of the series.
    pub(crate) members: Vec<(Option<u64>, u64)>,
    last: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Repeats(u64),
    New,
    /// The event becomes a new Event for all further similar events.
    NewCombined,
}

impl EventGroup {
    pub(crate) fn new(similarity: Similarity, now: Instant) -> Self {
        Self {
            similarity: Arc::new(similarity),
            notes: Vec::new(),
            members: Vec::new(),
            last: now,
        }
    }

    /// EVENT-4: decides whether a note gets its own Event.
    pub(crate) fn member(&mut self, note: u64, now: Instant, limits: &EventLimits) -> Membership {
        if now >= self.last + limits.window {
            self.notes.clear();
        }
        let followed = |wanted| self.members.iter().find(|(member, _)| *member == wanted);
        if let Some((_, series)) = followed(Some(note)) {
            return Membership::Repeats(*series);
        }
        if self.notes.len() < limits.own_notes || self.notes.contains(&note) {
            return Membership::New;
        }
        match followed(None) {
            Some((_, series)) => Membership::Repeats(*series),
            None => Membership::NewCombined,
        }
    }

    /// Records the time of an occurrence.
    pub(crate) fn seen(&mut self, now: Instant) {
        self.last = now;
    }

    /// Adds the series of a new Event. `note` is `None` for the combined Event.
    pub(crate) fn add(&mut self, note: Option<u64>, series: u64) {
        self.members.push((note, series));
        if let Some(note) = note
            && !self.notes.contains(&note)
        {
            self.notes.push(note);
        }
    }

    pub(crate) fn remove(&mut self, series: u64) {
        self.members.retain(|(_, member)| *member != series);
    }

    /// Returns when the group can be forgotten; `None` while it follows an Event.
    pub(crate) fn ends_at(&self, limits: &EventLimits) -> Option<Instant> {
        let end = self.last + limits.window;
        self.members.is_empty().then_some(end)
    }
}
