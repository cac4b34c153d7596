//! Machine: whom the player has to look at, and what it has to look at closely there.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::facts::{Key, Place};

/// Who has to be looked at, without doubles, in the order in which it came up: one that comes up
/// again and again holds up nobody else (PLAY-5).
#[derive(Debug, Default)]
pub(super) struct Agenda {
    queued: VecDeque<Key>,
    known: HashSet<Key>,
    /// The Pods of each controller that came to it, or whose labels changed, since it last asked:
    /// its selector may find them no more.
    suspects: HashMap<Key, BTreeSet<Place>>,
}

impl Agenda {
    pub(super) fn add(&mut self, key: Key) {
        if self.known.insert(key.clone()) {
            self.queued.push_back(key);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Key> {
        let key = self.queued.pop_front()?;
        self.known.remove(&key);
        Some(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(super) fn suspect(&mut self, controller: Key, pod: Place) {
        self.suspects.entry(controller).or_default().insert(pod);
    }

    /// The suspects of a controller, once.
    pub(super) fn take_suspects(&mut self, controller: &Key) -> BTreeSet<Place> {
        self.suspects.remove(controller).unwrap_or_default()
    }
}
