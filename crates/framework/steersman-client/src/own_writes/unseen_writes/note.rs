//! Machine: decides whether an informer has seen the writes of one object.

use std::time::{Duration, Instant};

use steersman_cache::KeyState;
use steersman_object::{ObjectKey, ResourceVersion};

use super::{KeptAnswer, WriterHash};

/// The known writes of one object by one request key. Later reads of that key must see them. The fields describe the
/// state on the server, which the informer shows only later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) key: ObjectKey,
    /// The uid of the written object; `None` if only the absence of the object is known.
    pub(super) uid: Option<String>,
    /// The newest resource version of the object that the server stored; `None` if no version is known.
    pub(super) version: Option<ResourceVersion>,
    /// Whether the object of `uid` was deleted after `version`.
    pub(super) deleted: bool,
    /// Whether the deleted object had neither finalizers nor a grace period. If so, a terminating object in the cache
    /// is an older state, and reads still wait (RYOW-2).
    pub(super) is_final: bool,
    /// The newest resource version at which the server had no object of this key. An object that the cache receives at
    /// a later version counts as alive, whatever its uid (RYOW-7).
    pub(super) absent: Option<ResourceVersion>,
    /// The object at `version`, from the server's answer to the write; `None` if the answer was not kept.
    pub(super) answer: Option<KeptAnswer>,
    /// The time at which a read first began to wait for these writes; `None` if no read has waited yet.
    pub(super) awaited: Option<Instant>,
    pub(super) serial: u64,
    pub(crate) writer: WriterHash,
}

impl Note {
    /// Returns how long reads may still wait for these writes: the limit `most` minus the time since the first read
    /// began to wait (RYOW-5).
    pub(crate) fn remaining(&self, most: Duration, now: Instant) -> Duration {
        let waited = |since| now.saturating_duration_since(since);
        most.saturating_sub(self.awaited.map_or(Duration::ZERO, waited))
    }

    /// RYOW-12: returns the server's answer to the last write, unless the object is known to be deleted or absent. A
    /// read may return this answer while the informer has not reached its version.
    pub(crate) fn answer(&self) -> Option<&KeptAnswer> {
        let answer = self.answer.as_ref();
        answer.filter(|_| !self.deleted && self.absent.is_none())
    }

    /// Returns whether an informer in this state has seen the writes, because it has reached their version or a later
    /// version (RYOW-2). The note can then be forgotten.
    pub(crate) fn is_seen(&self, has: &KeyState) -> bool {
        let absent = self.absent.as_ref();
        self.is_shown(has) && absent.is_none_or(|at| has.has_reached(at))
    }

    /// Returns whether a read of the informer now shows nothing older than these writes, so that no read waits. This is
    /// also true if both the server and the informer have no object of this key, even if the informer has not reached
    /// the version `absent` (RYOW-7). The note stays then, because an older version of the object may still arrive and
    /// be deleted again.
    pub(crate) fn is_shown(&self, has: &KeyState) -> bool {
        let has_reached = |version| has.has_reached(version);
        // A stored object with another uid is either newer than the written object, which is then gone, or older. If it
        // is older, the informer has not reached the write, so the check of `version` or `absent` is false.
        let is_gone = has.stored.as_ref().is_none_or(|stored| {
            stored.is_deleting && !self.is_final || Some(&stored.uid) != self.uid.as_ref()
        });
        let is_absent = has.stored.is_none() && has.applied.is_exact();
        self.version.as_ref().is_none_or(has_reached)
            && (!self.deleted || is_gone)
            && (is_absent || self.absent.as_ref().is_none_or(has_reached))
    }

    /// Merges this note of a stored object with the `known` note of its key. Returns `None` if the known note is of a
    /// later write, because the answers to concurrent writes arrive in any order.
    pub(super) fn after(mut self, known: Option<&Self>) -> Option<Self> {
        let Some(known) = known else {
            return Some(self);
        };
        let is_newer = |a: &Option<ResourceVersion>, b: &Option<ResourceVersion>| match (a, b) {
            (Some(a), Some(b)) => a.is_at_least(b),
            _ => false,
        };
        // The known note is of a later write, or the object was absent later: reads wait for that state, and not for
        // this earlier write.
        if is_newer(&known.version, &self.version) || is_newer(&known.absent, &self.version) {
            return None;
        }
        // An object with a deleted uid never exists again, so a known delete of this uid stays true.
        self.deleted = known.deleted && known.uid == self.uid;
        self.is_final = self.deleted && known.is_final;
        self.absent.clone_from(&known.absent);
        Some(self)
    }

    /// Makes this the note of a deleted object, merged with the `known` note of its key; `at` is a version at which the
    /// object existed, if such a version is known. The informer must still reach the version in `known`, because an
    /// object that it never received does not count as gone, and must pass `at`, because the object may still arrive
    /// and be deleted again (RYOW-9).
    pub(super) fn gone(mut self, known: Option<&Self>, at: Option<ResourceVersion>) -> Self {
        let before = known.filter(|known| known.uid == self.uid);
        self.version = before.and_then(|known| known.version.clone());
        self.deleted = true;
        self.is_final = before.is_some_and(|known| known.is_final);
        let absent = known.and_then(|known| known.absent.clone());
        let is_newer = |at: &ResourceVersion| absent.as_ref().is_none_or(|was| at.is_at_least(was));
        self.absent = at.filter(is_newer).or(absent);
        self
    }

    /// Makes this the note of an object that was absent at version `at`, merged with the `known` note of its key.
    /// Returns `None` if the known note has a newer version.
    pub(super) fn absent(mut self, known: Option<&Self>, at: ResourceVersion) -> Option<Self> {
        if let Some(known) = known {
            let mut versions = [&known.version, &known.absent].into_iter().flatten();
            if versions.any(|version| version.is_at_least(&at)) {
                return None;
            }
            self.uid.clone_from(&known.uid);
            self.version.clone_from(&known.version);
            self.deleted = known.deleted;
            self.is_final = known.is_final;
        }
        self.absent = Some(at);
        Some(self)
    }
}
