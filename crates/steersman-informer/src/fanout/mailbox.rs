//! Machine: what waits for one subscriber, every event of it or, past the bound, a step per key.

use std::collections::{BTreeMap, HashMap, VecDeque};

use steersman_object::ObjectKey;

use crate::entry::RawEntry;
use crate::event::{Certainty, Event, Origin, RawEvent};
use crate::fanout::sync_marker::SyncMarker;

/// The places of so many keys are kept for the next time: a subscriber who is slow again and again needs
/// them again and again.
const KEPT: usize = 2048;

/// What one subscriber has not taken yet.
///
/// Within the bound it is every event, in order. Past it (FAN-2), what waits for one key collapses
/// to the step from what the subscriber last took to what is: nothing, created, updated, deleted,
/// or deleted and created where the uid differs. So it never holds more than the objects that the
/// subscriber has seen and those that exist. A collapsed step waits where the newest event would,
/// except that what belongs to the initial set stays before the marker of its end.
#[derive(Debug)]
pub(crate) struct Mailbox {
    waiting: BTreeMap<u64, Waiting>,
    /// Where the step of each key waits; kept only while collapsed.
    positions: HashMap<ObjectKey, u64>,
    next: u64,
    bound: usize,
    collapsed: bool,
    /// The second half of a step that is two events.
    half: VecDeque<RawEvent>,
    marker: SyncMarker,
}

#[derive(Debug)]
enum Waiting {
    Event(RawEvent),
    CollapsedChange(CollapsedChange),
}

/// From what the subscriber last took of a key to what is.
#[derive(Debug)]
struct CollapsedChange {
    taken: Option<RawEntry>,
    /// How the object that was taken ended.
    ended: Option<(RawEntry, Certainty)>,
    now: Option<(RawEntry, Origin)>,
}

/// What a subscriber takes next.
#[derive(Debug)]
pub(crate) enum Taken {
    Event(RawEvent),
    Synced,
    Nothing,
}

impl Mailbox {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            positions: HashMap::new(),
            next: 0,
            bound,
            collapsed: false,
            half: VecDeque::new(),
            marker: SyncMarker::default(),
        }
    }
}

impl Mailbox {
    /// Puts in what is there when the subscriber joins (FAN-1).
    pub(crate) fn fill(&mut self, present: impl Iterator<Item = RawEntry>) {
        for entry in present {
            let created = Event::created(entry, Origin::Initial);
            self.append(Waiting::Event(created));
        }
    }

    /// What waits now is the initial set.
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
            let first = self
                .waiting
                .first_key_value()
                .map(|(position, _)| *position);
            if self.marker.due(first) {
                return Taken::Synced;
            }
            let Some((_, waiting)) = self.waiting.pop_first() else {
                self.collapsed = false;
                self.positions.clear();
                // It may never again be so much as the initial set was (STORE-8).
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

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.half.len() + usize::from(self.marker.is_waiting())
    }

    fn append(&mut self, waiting: Waiting) -> u64 {
        let position = self.next;
        self.next += 1;
        self.waiting.insert(position, waiting);
        position
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

    /// Merges an event, which would wait at `position`, with what waits for its key.
    fn fold_at(&mut self, event: RawEvent, position: u64) {
        let key = event.key().clone();
        let before = self.positions.remove(&key);
        let waiting = before.and_then(|at| Some((at, self.waiting.remove(&at)?)));
        let (step, position) = match waiting {
            Some((at, Waiting::CollapsedChange(mut step))) => {
                step.fold(event);
                // The initial set is complete only once this was taken.
                let stays = self.marker.is_initial(at) && step.taken.is_none();
                (step, if stays { at } else { position })
            }
            Some((_, Waiting::Event(_))) | None => (CollapsedChange::of(event), position),
        };
        if step.is_nothing() {
            return;
        }
        self.positions.insert(key, position);
        self.waiting
            .insert(position, Waiting::CollapsedChange(step));
    }
}

impl CollapsedChange {
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
                // A resync adds nothing, and an initial object stays one until it is taken.
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

    fn is_nothing(&self) -> bool {
        self.taken.is_none() && self.now.is_none()
    }

    fn key(&self) -> &ObjectKey {
        self.any().key()
    }

    #[expect(clippy::expect_used, reason = "proven below")]
    fn any(&self) -> &RawEntry {
        let now = self.now.as_ref().map(|(entry, _)| entry);
        // A step that is nothing is never kept: one of the two is there.
        now.or(self.taken.as_ref())
            .expect("a kept step is not nothing")
    }

    /// The step as one event, or two where another object has the name now.
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

/// Whether all that is known of what was taken is how it ended. An object that leaves a selector and comes
/// back was at an earlier version when it was taken, so it is told as gone and there again.
fn is_final(taken: &RawEntry, ended: Option<&(RawEntry, Certainty)>) -> bool {
    ended.is_some_and(|(last, certainty)| {
        *certainty == Certainty::Observed && last.is_same_version_as(taken)
    })
}

#[cfg(test)]
mod tests;
