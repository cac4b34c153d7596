//! Machine: the similar events of one object: which of them get an Event of their own.

use std::sync::Arc;
use std::time::Instant;

use crate::event_limits::EventLimits;
use crate::series::Similarity;

/// Similar events of one object: they differ in their notes only.
#[derive(Debug)]
pub(crate) struct EventGroup {
    pub(crate) similarity: Arc<Similarity>,
    /// The hashes of the notes that got an Event of their own since the last pause.
    notes: Vec<u64>,
    /// The followed Events: the hash of the note, or `None` for the combined Event, and the series.
    pub(crate) members: Vec<(Option<u64>, u64)>,
    last: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Repeats(u64),
    New,
    /// The event is a new Event that stands for all further similar ones.
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

    /// EVENT-4: decides whether a note gets an Event of its own.
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

    /// Notes an occurrence.
    pub(crate) fn seen(&mut self, now: Instant) {
        self.last = now;
    }

    /// Adds the series of a new Event; `note` is `None` for the combined Event.
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

    /// Returns the time at which the group is forgotten, if it follows no Event.
    pub(crate) fn ends_at(&self, limits: &EventLimits) -> Option<Instant> {
        let end = self.last + limits.window;
        self.members.is_empty().then_some(end)
    }
}
