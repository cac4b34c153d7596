//! Machine: the events that wait for one subscriber. Beyond the bound there is one coalesced change per key.

use std::collections::{BTreeMap, HashMap, VecDeque};

use steersman_object::ObjectKey;

use crate::entry::RawEntry;
use crate::event::{Certainty, Event, Origin, RawEvent};
use crate::fanout::sync_marker::SyncMarker;

/// The capacity that `positions` keeps after it was emptied, for the next time the subscriber falls behind.
const KEPT: usize = 2048;

/// The events that one subscriber has not taken yet.
///
/// Within the bound every event is kept, in order. Past it (FAN-2), the events of one key are coalesced to the change
/// from the version taken last to the current one: none, created, updated, deleted, or deleted and created if the uid
/// differs. So a mailbox holds no more changes than there are objects that the subscriber has seen or that exist. A
/// coalesced change waits at the position of the newest event, but an initial object stays before the sync marker.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: BTreeMap<u64, Waiting>,
    /// The position of each key's change; empty while events are not coalesced.
    positions: HashMap<ObjectKey, u64>,
    next: u64,
    bound: usize,
    collapsed: bool,
    /// The second event of a change that became two events, after the subscriber has taken the first.
    half: VecDeque<RawEvent>,
    marker: SyncMarker,
}

#[derive(Debug)]
enum Waiting {
    Event(RawEvent),
    CollapsedChange(CollapsedChange),
}

/// The coalesced change of a key, from the version that the subscriber took last to the current version.
#[derive(Debug)]
struct CollapsedChange {
    /// The version that the subscriber took last; `None` if no object had the key for the subscriber.
    taken: Option<RawEntry>,
    /// The final version of the object in `taken`, if that object was deleted after the subscriber took it.
    ended: Option<(RawEntry, Certainty)>,
    /// The current version, with the origin of its event; `None` if no object has the key now.
    now: Option<(RawEntry, Origin)>,
}

/// The next delivery of a subscriber.
#[derive(Debug)]
pub(crate) enum Taken {
    Event(RawEvent),
    Synced,
    Nothing,
}

impl Mailbox {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            bound,
            ..Self::default()
        }
    }
    /// Adds the objects that are present when the subscriber joins (FAN-1).
    pub(crate) fn fill(&mut self, present: impl Iterator<Item = RawEntry>) {
        for entry in present {
            let created = Event::created(entry, Origin::Initial);
            self.append(Waiting::Event(created));
        }
    }

    /// Puts the sync marker, which ends the initial objects, behind the waiting events.
    pub(crate) fn mark_synced(&mut self) {
        self.marker.set(self.next);
    }

    pub(crate) fn push(&mut self, event: RawEvent) {
        if !self.collapsed && self.waiting.len() >= self.bound {
            self.collapse();
        }
        if self.collapsed {
            self.fold(event);
        } else {
            self.append(Waiting::Event(event));
        }
    }

    pub(crate) fn take(&mut self) -> Taken {
        if let Some(event) = self.half.pop_front() {
            return Taken::Event(event);
        }
        loop {
            let first = self.waiting.keys().next().copied();
            if self.marker.due(first) {
                return Taken::Synced;
            }
            let Some((_, waiting)) = self.waiting.pop_first() else {
                self.collapsed = false;
                self.positions.clear();
                // The table is shrunk, because only the initial objects make it large (STORE-8).
                if self.positions.capacity() > KEPT {
                    self.positions = HashMap::new();
                }
                return Taken::Nothing;
            };
            match waiting {
                Waiting::Event(event) => return Taken::Event(event),
                Waiting::CollapsedChange(step) => {
                    self.positions.remove(step.key());
                    self.half.extend(step.events());
                    if let Some(event) = self.half.pop_front() {
                        return Taken::Event(event);
                    }
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.half.len() + usize::from(self.marker.is_waiting())
    }

    fn append(&mut self, waiting: Waiting) {
        self.waiting.insert(self.next, waiting);
        self.next += 1;
    }

    fn collapse(&mut self) {
        self.collapsed = true;
        for (position, waiting) in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Event(event) => self.fold_at(event, position),
                Waiting::CollapsedChange(step) => {
                    self.positions.insert(step.key().clone(), position);
                    self.waiting
                        .insert(position, Waiting::CollapsedChange(step));
                }
            }
        }
    }

    fn fold(&mut self, event: RawEvent) {
        let position = self.next;
        self.next += 1;
        self.fold_at(event, position);
    }

    /// Merges an event into the waiting change of its key. `position` is the event's place in the queue.
    fn fold_at(&mut self, event: RawEvent, position: u64) {
        let key = event.key().clone();
        let before = self.positions.remove(&key);
        let waiting = before.and_then(|at| Some((at, self.waiting.remove(&at)?)));
        let (step, position) = match waiting {
            Some((at, Waiting::CollapsedChange(mut step))) => {
                step.fold(event);
                // An initial object that the subscriber has not taken stays before the sync marker.
                let stays = self.marker.is_initial(at) && step.taken.is_none();
                (step, if stays { at } else { position })
            }
            Some((_, Waiting::Event(_))) | None => (CollapsedChange::of(event), position),
        };
        if step.taken.is_none() && step.now.is_none() {
            return;
        }
        self.positions.insert(key, position);
        self.waiting
            .insert(position, Waiting::CollapsedChange(step));
    }
}

impl CollapsedChange {
    /// Makes the change of one event. The subscriber counts as having taken the version before the event.
    fn of(event: RawEvent) -> Self {
        match event {
            Event::Created { new, origin } => Self {
                taken: None,
                ended: None,
                now: Some((new, origin)),
            },
            Event::Updated { old, new, origin } => Self {
                taken: Some(old),
                ended: None,
                now: Some((new, origin)),
            },
            Event::Deleted {
                last_known,
                certainty,
            } => Self {
                taken: Some(last_known.clone()),
                ended: Some((last_known, certainty)),
                now: None,
            },
        }
    }

    fn fold(&mut self, event: RawEvent) {
        match event {
            Event::Created { new, origin } => self.now = Some((new, origin)),
            Event::Updated { new, origin, .. } => {
                let before = self.now.as_ref().map_or(origin, |(_, origin)| *origin);
                // A resync changes nothing, and an initial object stays initial until it is taken.
                let keeps = origin == Origin::Resync || before == Origin::Initial;
                self.now = Some((new, if keeps { before } else { origin }));
            }
            Event::Deleted {
                last_known,
                certainty,
            } => {
                let taken = self.taken.as_ref();
                if self.ended.is_none() && taken.is_some_and(|t| t.is_same_as(&last_known)) {
                    self.ended = Some((last_known, certainty));
                }
                self.now = None;
            }
        }
    }

    fn key(&self) -> &ObjectKey {
        self.any().key()
    }

    fn any(&self) -> &RawEntry {
        let now = self.now.as_ref().map(|(entry, _)| entry);
        // An empty change is dropped, so one of the two versions is set.
        now.or(self.taken.as_ref())
            .expect("a waiting change is not empty")
    }

    /// Returns the change as events: none, one, or a delete and a create if another object has the key now.
    fn events(self) -> Vec<RawEvent> {
        match (self.taken, self.now) {
            (None, None) => Vec::new(),
            (None, Some((new, origin))) => vec![Event::created(new, origin)],
            (Some(taken), Some((new, origin)))
                if taken.is_same_as(&new) && !is_final(&taken, self.ended.as_ref()) =>
            {
                vec![Event::updated(taken, new, origin)]
            }
            (Some(taken), now) => {
                let unknown = (taken, Certainty::FinalStateUnknown);
                let (last_known, certainty) = self.ended.unwrap_or(unknown);
                let mut events = vec![Event::deleted(last_known, certainty)];
                events.extend(now.map(|(new, origin)| Event::created(new, origin)));
                events
            }
        }
    }
}

/// Returns whether the subscriber took the very version that was deleted. If an object with the same uid then appears
/// again, the change is a delete and a create; otherwise it is an update.
fn is_final(taken: &RawEntry, ended: Option<&(RawEntry, Certainty)>) -> bool {
    ended.is_some_and(|(last, certainty)| {
        *certainty == Certainty::Observed && last.is_same_version_as(taken)
    })
}

#[cfg(test)]
mod tests;
