//! Machine: what a read has to see of one object before it is answered.

use std::time::{Duration, Instant};

use steersman_object::{ObjectKey, ResourceVersion};

use super::Writer;

/// What an informer has of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheState<'a> {
    /// Up to where the informer has applied what the server said.
    pub(crate) applied: &'a ResourceVersion,
    pub(crate) stored: Option<StoredObject<'a>>,
}

/// An object as an informer has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredObject<'a> {
    pub(crate) uid: &'a str,
    pub(crate) version: &'a ResourceVersion,
    pub(crate) is_deleting: bool,
}

/// What a read of one object has to see. Each of it is true of the server, so an informer comes to see all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) key: ObjectKey,
    /// Of what was written, where something was.
    pub(super) uid: Option<String>,
    /// The newest version that the server stored, where one is known.
    pub(super) version: Option<ResourceVersion>,
    /// Whether what has the uid was deleted after that.
    pub(super) deleted: bool,
    /// Whether no finalizer and no grace period held the object as it was deleted: then one that the cache has as
    /// terminating is an older state of it.
    pub(super) is_final: bool,
    /// The newest version at which the server said that it has no such object. It names no uid: what the cache
    /// has since then, under whatever uid, may be alive.
    pub(super) absent: Option<ResourceVersion>,
    /// When a read first waited for it.
    pub(super) awaited: Option<Instant>,
    pub(super) serial: u64,
    pub(crate) writer: Writer,
}

impl Note {
    /// Returns the time that reads may still wait for the note: `most`, less the time since the first read began to wait.
    pub(crate) fn patience(&self, most: Duration, now: Instant) -> Duration {
        let waited = |since| now.saturating_duration_since(since);
        most.saturating_sub(self.awaited.map_or(Duration::ZERO, waited))
    }

    /// Whether an informer has seen the write (RYOW-2).
    pub(crate) fn is_seen(&self, look: CacheState<'_>) -> bool {
        let has_come = |version| look.has_come(version);
        self.is_shown(look) && self.absent.as_ref().is_none_or(has_come)
    }

    /// Whether a read of what an informer has finds nothing else than what is known, though it may not have come so
    /// far: what was absent and is not stored is not waited for (RYOW-7). The note stays, for what was stored before
    /// that may still come, and go.
    pub(crate) fn is_shown(&self, look: CacheState<'_>) -> bool {
        let has_come = self.version.as_ref().is_none_or(|v| look.has_come(v));
        // Another object that has the name since is as good as none; one that had it before is older than
        // what was written, and so it has not come.
        let is_gone = |stored: StoredObject<'_>| {
            stored.is_deleting && !self.is_final || Some(stored.uid) != self.uid.as_deref()
        };
        let is_absent = look.stored.is_none() && look.applied.is_exact();
        has_come
            && (!self.deleted || look.stored.is_none_or(is_gone))
            && (is_absent || self.absent.as_ref().is_none_or(|at| look.has_come(at)))
    }

    /// The note of an object that was stored, where another one of its key is known; none where that is of a later
    /// write: of two at once, either answer may come first.
    pub(super) fn after(mut self, known: Option<&Self>) -> Option<Self> {
        let Some(known) = known else {
            return Some(self);
        };
        let is_newer = |a: &Option<ResourceVersion>, b: &Option<ResourceVersion>| match (a, b) {
            (Some(a), Some(b)) => a.is_at_least(b),
            _ => false,
        };
        // An object that was absent after this write is not waited for.
        if is_newer(&known.version, &self.version) || is_newer(&known.absent, &self.version) {
            return None;
        }
        // What was once deleted does not come back.
        self.deleted = known.deleted && known.uid == self.uid;
        self.is_final = self.deleted && known.is_final;
        self.absent.clone_from(&known.absent);
        Some(self)
    }

    /// The note of an object that is gone, and that was there at version `at`, where one is known. What was stored
    /// before has to be seen too: an object that never appeared is not gone. And the note stays until the informer
    /// has passed `at`: the object may still come, and go (RYOW-9).
    pub(super) fn gone(mut self, known: Option<&Self>, at: Option<ResourceVersion>) -> Self {
        let before = known.filter(|known| known.uid == self.uid);
        self.version = before.and_then(|known| known.version.clone());
        self.deleted = true;
        self.is_final = before.is_some_and(|known| known.is_final);
        self.absent = known.and_then(|known| known.absent.clone());
        if let Some(at) = at
            && self
                .absent
                .as_ref()
                .is_none_or(|known| at.is_at_least(known))
        {
            self.absent = Some(at);
        }
        self
    }

    /// The note of an object that was absent at a version, and of what is known of it besides; none where that is
    /// newer: it was written, or asked about, while the question was under way.
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

impl CacheState<'_> {
    /// Whether the informer has come as far as a version, all in all or with this object.
    pub(crate) fn has_come(&self, version: &ResourceVersion) -> bool {
        let stored = self.stored.map(|stored| stored.version);
        self.applied.is_at_least(version) || stored.is_some_and(|s| s.is_at_least(version))
    }
}
