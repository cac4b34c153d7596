//! Machine: the events that wait for one subscriber. Beyond the bound there is one coalesced change per key.

use std::collections::{BTreeMap, HashMap};

use steersman_object::ObjectKey;

use crate::entry::RawEntry;
use crate::event::{Certainty, Event, Origin, RawEvent};
use crate::fanout::sync_marker::SyncMarker;

/// The largest capacity that `positions` keeps while it is empty, for the next time the subscriber falls behind.
const KEPT: usize = 2048;

/// The events that one subscriber has not taken yet.
///
/// Within the bound every event is kept, in order. Beyond it (FAN-2), the events of one key are coalesced to the change
/// from the version taken last to the current one: none, created, updated, deleted, or deleted and created if the uid
/// differs. So a mailbox holds no more changes than there are objects that the subscriber has seen or that exist. A
/// coalesced change waits at the position of the newest event, but an initial object stays before the sync marker.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: BTreeMap<u64, WaitingChange>,
    /// The position of each key's change; empty while events are not coalesced.
    positions: HashMap<ObjectKey, u64>,
    next: u64,
    bound: usize,
    collapsed: bool,
    /// The create of a change that became a delete and a create, once the subscriber has taken the delete.
    half: Option<RawEvent>,
    marker: SyncMarker,
}

/// One event, or several coalesced events of a key: the change from the version that the subscriber took last to the
/// current version.
#[derive(Debug)]
struct WaitingChange {
    /// The version that the subscriber took last; `None` if the subscriber knows of no object with the key.
    taken: Option<RawEntry>,
    /// The end of the object in `taken`, if that object was deleted or released after the subscriber took it.
    ended: Option<ObjectEnd>,
    /// The current version, with the origin of its event; `None` if no object has the key now.
    now: Option<(RawEntry, Origin)>,
}

/// One change for a subscriber.
#[derive(Debug)]
enum SubscriberChange {
    Event(RawEvent),
    /// The slot of the object was lost (SHARD-4).
    Released(RawEntry),
}

/// How an object that a subscriber has taken left the store.
#[derive(Debug)]
enum ObjectEnd {
    /// The object was deleted, with its final version.
    Deleted(RawEntry, Certainty),
    /// The slot of the object was lost (SHARD-4).
    Released,
}

/// The next delivery of a subscriber.
#[derive(Debug)]
pub(crate) enum Taken {
    Event(RawEvent),
    Released(ObjectKey),
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
            self.append(Event::created(entry, Origin::Initial));
        }
    }

    /// Puts the sync marker, which ends the initial objects, behind the waiting events.
    pub(crate) fn mark_synced(&mut self) {
        self.marker.set(self.next);
    }

    pub(crate) fn push(&mut self, event: RawEvent) {
        self.collapse_beyond_bound();
        if self.collapsed {
            self.fold(event.key().clone(), SubscriberChange::Event(event));
        } else {
            self.append(event);
        }
    }

    /// Adds an object that left the store because its slot was lost. Within the bound its waiting events stay.
    pub(crate) fn release(&mut self, released: &RawEntry) {
        self.collapse_beyond_bound();
        if self.collapsed {
            self.fold(
                released.key().clone(),
                SubscriberChange::Released(released.clone()),
            );
        } else {
            self.add(WaitingChange::released(released.clone()));
        }
    }

    pub(crate) fn take(&mut self) -> Taken {
        if let Some(event) = self.half.take() {
            return Taken::Event(event);
        }
        loop {
            let first = self.waiting.keys().next().copied();
            if self.marker.due(first) {
                return Taken::Synced;
            }
            let Some((_, change)) = self.waiting.pop_first() else {
                self.collapsed = false;
                self.positions.clear();
                // The table is shrunk, because only the initial objects make it large (STORE-8).
                if self.positions.capacity() > KEPT {
                    self.positions = HashMap::new();
                }
                return Taken::Nothing;
            };
            if self.collapsed {
                self.positions.remove(change.key());
            }
            let (first, second) = change.deliveries();
            self.half = second;
            match first {
                Some(SubscriberChange::Event(event)) => return Taken::Event(event),
                Some(SubscriberChange::Released(entry)) => {
                    return Taken::Released(entry.key().clone());
                }
                None => {}
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let half = usize::from(self.half.is_some());
        self.waiting.len() + half + usize::from(self.marker.is_waiting())
    }

    fn append(&mut self, event: RawEvent) {
        self.add(WaitingChange::of(event));
    }

    fn add(&mut self, change: WaitingChange) {
        self.waiting.insert(self.next, change);
        self.next += 1;
    }

    fn collapse_beyond_bound(&mut self) {
        if self.collapsed || self.waiting.len() < self.bound {
            return;
        }
        self.collapsed = true;
        for (position, change) in std::mem::take(&mut self.waiting) {
            let key = change.key().clone();
            // Nothing is coalesced yet, so each change is one delivery.
            if let (Some(change), _) = change.deliveries() {
                self.fold_at(key, change, position);
            }
        }
    }

    fn fold(&mut self, key: ObjectKey, change: SubscriberChange) {
        let position = self.next;
        self.next += 1;
        self.fold_at(key, change, position);
    }

    /// Merges a change into the waiting change of its key. `position` is the place of the change in the queue.
    fn fold_at(&mut self, key: ObjectKey, added: SubscriberChange, position: u64) {
        let before = self.positions.remove(&key);
        let waiting = before.and_then(|at| Some((at, self.waiting.remove(&at)?)));
        let (change, position) = match waiting {
            Some((at, mut change)) => {
                change.fold(added);
                // An initial object that the subscriber has not taken stays before the sync marker.
                let stays = self.marker.is_initial(at) && change.taken.is_none();
                (change, if stays { at } else { position })
            }
            None => match added {
                SubscriberChange::Event(event) => (WaitingChange::of(event), position),
                SubscriberChange::Released(entry) => (WaitingChange::released(entry), position),
            },
        };
        if change.taken.is_none() && change.now.is_none() {
            return;
        }
        self.positions.insert(key, position);
        self.waiting.insert(position, change);
    }
}

impl WaitingChange {
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
                ended: Some(ObjectEnd::Deleted(last_known, certainty)),
                now: None,
            },
        }
    }

    /// Makes the change of a release. The subscriber counts as having taken the released version.
    fn released(entry: RawEntry) -> Self {
        Self {
            taken: Some(entry),
            ended: Some(ObjectEnd::Released),
            now: None,
        }
    }

    fn fold(&mut self, change: SubscriberChange) {
        let event = match change {
            SubscriberChange::Event(event) => event,
            SubscriberChange::Released(entry) => {
                let taken = self.taken.as_ref();
                if self.ended.is_none() && taken.is_some_and(|taken| taken.is_same_as(&entry)) {
                    self.ended = Some(ObjectEnd::Released);
                }
                self.now = None;
                return;
            }
        };
        match event {
            Event::Created { new, origin } => self.now = Some((new, origin)),
            Event::Updated { new, origin, .. } => {
                let before = self.now.as_ref().map_or(origin, |(_, origin)| *origin);
                // The origin stays: a resync changes nothing, and an initial object stays initial until it is taken.
                let keeps = origin == Origin::Resync || before == Origin::Initial;
                self.now = Some((new, if keeps { before } else { origin }));
            }
            Event::Deleted {
                last_known,
                certainty,
            } => {
                let taken = self.taken.as_ref();
                if self.ended.is_none() && taken.is_some_and(|t| t.is_same_as(&last_known)) {
                    self.ended = Some(ObjectEnd::Deleted(last_known, certainty));
                }
                self.now = None;
            }
        }
    }

    fn key(&self) -> &ObjectKey {
        let now = self.now.as_ref().map(|(entry, _)| entry);
        // An empty change is dropped, so one of the two versions is set.
        let entry = now.or(self.taken.as_ref());
        entry.expect("a waiting change is not empty").key()
    }

    /// Returns the change as deliveries: none, one, or a delete or release and a create if an object has the key now.
    fn deliveries(self) -> (Option<SubscriberChange>, Option<RawEvent>) {
        let created = |(new, origin): (RawEntry, Origin)| Event::created(new, origin);
        match (self.taken, self.now) {
            (None, now) => (now.map(created).map(SubscriberChange::Event), None),
            (Some(taken), Some((new, origin)))
                if taken.is_same_as(&new) && !is_final(&taken, self.ended.as_ref()) =>
            {
                let updated = Event::updated(taken, new, origin);
                (Some(SubscriberChange::Event(updated)), None)
            }
            (Some(taken), now) => {
                let end = match self.ended {
                    Some(ObjectEnd::Released) => SubscriberChange::Released(taken),
                    Some(ObjectEnd::Deleted(last, certainty)) => {
                        SubscriberChange::Event(Event::deleted(last, certainty))
                    }
                    None => {
                        SubscriberChange::Event(Event::deleted(taken, Certainty::FinalStateUnknown))
                    }
                };
                (Some(end), now.map(created))
            }
        }
    }
}

/// Returns whether the subscriber counts as having taken the very version that was deleted, or the object was released.
/// If an object with the same uid is there again, the change is then a delete or a release and a create, and otherwise
/// an update.
fn is_final(taken: &RawEntry, ended: Option<&ObjectEnd>) -> bool {
    ended.is_some_and(|end| match end {
        ObjectEnd::Released => true,
        ObjectEnd::Deleted(last, certainty) => {
            *certainty == Certainty::Observed && last.is_same_version_as(taken)
        }
    })
}

#[cfg(test)]
mod tests;
