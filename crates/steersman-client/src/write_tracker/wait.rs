//! Driver: lets a read wait until the cache has seen what it has to see.

use std::time::Duration;

use steersman_object::{Gvk, Kind, ResourceVersion};
use tokio::time::{Instant, timeout};

use super::{WriteTracker, is_stuck, look};
use crate::options::ClientOptions;
use crate::unseen_writes::{Note, Read};
use steersman_cache::internal::CacheInternals as _;

/// How a read goes on.
pub(crate) enum Waited {
    /// The cache shows all that this read has to see. Of these objects it shows none while it has not come further;
    /// what is read counts if they [still hold](WriteTracker::still_hold) afterwards.
    Cache(Vec<Unstored>),
    /// These were not seen in time.
    Late(Vec<Note>),
}

/// An absent object that the cache has not stored, and may still come to store and drop (RYOW-7).
pub(crate) struct Unstored {
    note: Note,
    /// How far the informer had come.
    applied: ResourceVersion,
}

/// How far an informer has come with a note.
pub(super) enum Progress {
    /// Nothing has to be waited for, and nothing older can come.
    Over,
    /// A read finds nothing older now; the informer has come this far.
    Unstored(ResourceVersion),
    Pending,
}

impl WriteTracker {
    /// Waits until the cache has seen these notes, which [`owed`](Self::owed) answered.
    ///
    /// Cancel safe.
    pub(crate) async fn wait(
        &self,
        options: &ClientOptions,
        kind: &Kind,
        read: Read<'_>,
        mut notes: Vec<Note>,
    ) -> Waited {
        if notes.is_empty() {
            return Waited::Cache(Vec::new());
        }
        let started = Instant::now();
        let most = options.own_write_wait;
        let settled = loop {
            let (unstored, pending) = self.sorted(kind.gvk(), notes);
            if pending.is_empty() {
                break Ok(unstored);
            }
            let mut late = pending.clone();
            if !self.wait_until(kind.gvk(), &mut late, most).await {
                break Err(late);
            }
            // Again, of all: meanwhile the cache may have come to store what it had not.
            notes = pending;
            notes.extend(unstored.into_iter().map(|unstored| unstored.note));
        };
        let metrics = options.metrics.as_ref();
        let waited = Some(started.elapsed()).filter(|waited| !waited.is_zero());
        if let Some((metrics, waited)) = metrics.zip(waited) {
            metrics.waited(kind, waited);
        }
        match settled {
            Ok(unstored) => Waited::Cache(unstored),
            Err(late) => Self::too_late(options, kind, read, late),
        }
    }

    /// Whether the cache is where it was when these objects were found not to be stored: then what was read
    /// meanwhile shows none of them.
    pub(crate) fn still_hold(&self, gvk: &Gvk, unstored: &[Unstored]) -> bool {
        unstored.iter().all(|Unstored { note, applied }| {
            let has = self.glimpse(gvk, &note.key);
            has.is_none_or(|has| has.applied == *applied)
        })
    }

    /// Those of the notes whose objects are not stored, and those that have to be waited for.
    fn sorted(&self, gvk: &Gvk, notes: Vec<Note>) -> (Vec<Unstored>, Vec<Note>) {
        let (mut unstored, mut pending) = (Vec::new(), Vec::new());
        for note in notes {
            match self.progress(gvk, &note) {
                Progress::Over => {}
                Progress::Unstored(applied) => unstored.push(Unstored { note, applied }),
                Progress::Pending => pending.push(note),
            }
        }
        (unstored, pending)
    }

    /// Waits until the cache has seen these, or `most` is over for some of them, which are left then. Those that
    /// reads waited for before have so much less (RYOW-5).
    async fn wait_until(&self, gvk: &Gvk, notes: &mut Vec<Note>, most: Duration) -> bool {
        loop {
            let now = Instant::now().into_std();
            self.lock().await_all(gvk, notes, now);
            let patience = |note: &Note| note.patience(most, now);
            let left = notes.iter().map(patience).min().unwrap_or_default();
            if left.is_zero() {
                notes.retain(|note| patience(note).is_zero());
                return false;
            }
            let all = async {
                for note in notes.iter() {
                    self.until_over(gvk, note).await;
                }
            };
            if timeout(left, all).await.is_ok() {
                return true;
            }
            notes.retain(|note| self.is_pending(gvk, note));
            if notes.is_empty() {
                return true;
            }
        }
    }

    fn too_late(options: &ClientOptions, kind: &Kind, read: Read<'_>, notes: Vec<Note>) -> Waited {
        if let Some(metrics) = &options.metrics {
            let verb = match read {
                Read::Object(_) => "get",
                Read::List(_) => "list",
            };
            metrics.expired(kind, verb);
        }
        Waited::Late(notes)
    }

    async fn until_over(&self, gvk: &Gvk, note: &Note) {
        // Each time anew: a kind may be removed from the cache, and begin again.
        while let Some(mirror) = self.cache.mirror_of(gvk, &note.key) {
            // Before the look, so that what comes between the look and the wait ends the wait.
            let mut applied = mirror.applied();
            if !self.is_pending(gvk, note) || applied.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_pending(&self, gvk: &Gvk, note: &Note) -> bool {
        matches!(self.progress(gvk, note), Progress::Pending)
    }

    /// How far the informer that covers a note has come with it; forgets a note that was seen.
    pub(super) fn progress(&self, gvk: &Gvk, note: &Note) -> Progress {
        let Some(mirror) = self.cache.mirror_of(gvk, &note.key) else {
            self.lock().seen(gvk, note);
            return Progress::Over;
        };
        let glimpse = mirror.glimpse(&note.key);
        let look = look(&glimpse);
        if note.is_seen(look) {
            self.lock().seen(gvk, note);
            return Progress::Over;
        }
        // CACHE-2: what is known about a kind that never synced is told at once, by the read.
        match (note.is_shown(look), is_stuck(&mirror)) {
            (true, _) => Progress::Unstored(glimpse.applied),
            (false, true) => Progress::Over,
            (false, false) => Progress::Pending,
        }
    }
}
