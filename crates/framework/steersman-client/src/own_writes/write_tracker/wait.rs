//! Driver: lets a read wait until the cache has seen the writes that the read must see.

use std::time::Duration;

use steersman_cache::internal::CacheInternals as _;
use steersman_object::{Gvk, Kind, ResourceVersion};
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::{WriteTracker, is_stuck};
use crate::options::ClientOptions;
use crate::own_writes::unseen_writes::{Note, Read};
use crate::spans::own_writes_span;

pub(crate) enum WaitOutcome {
    /// The cache shows every write that the read must see. The listed objects are absent from the server and from the
    /// cache; the read is valid only if they [stay absent](WriteTracker::still_hold) until the cache has been read.
    Cache(Vec<Unstored>),
    /// The cache did not show these writes before the time limit.
    Late(Vec<Note>),
}

/// An object that is absent from the server and from the cache, but that the cache may still receive and delete again
/// (RYOW-7).
pub(crate) struct Unstored {
    note: Note,
    applied: ResourceVersion,
}

pub(super) enum InformerProgress {
    /// No read has to wait for the write any more: the informer has seen it, fails before its first sync, or no longer
    /// runs.
    Over,
    /// The object is absent from the server, and the informer, which has applied this version, does not store it.
    Unstored(ResourceVersion),
    Pending,
}

impl WriteTracker {
    /// Waits until the cache has seen the writes in `notes`, which come from [`owed`](Self::owed) and are at least one, or
    /// until the time limit of a write is over. Cancel safe.
    pub(crate) async fn wait(
        &self,
        options: &ClientOptions,
        kind: &Kind,
        read: Read<'_>,
        notes: Vec<Note>,
    ) -> WaitOutcome {
        let span = own_writes_span(kind, notes.len());
        let waiting = self.wait_for(options, kind, read, notes);
        waiting.instrument(span).await
    }

    async fn wait_for(
        &self,
        options: &ClientOptions,
        kind: &Kind,
        read: Read<'_>,
        mut notes: Vec<Note>,
    ) -> WaitOutcome {
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
            // All writes are checked again, because the cache may have stored an absent object in the meantime.
            notes = pending;
            notes.extend(unstored.into_iter().map(|unstored| unstored.note));
        };
        let metrics = options.metrics.as_ref();
        let waited = Some(started.elapsed()).filter(|waited| !waited.is_zero());
        if let Some((metrics, waited)) = metrics.zip(waited) {
            metrics.waited(kind, waited);
        }
        match settled {
            Ok(unstored) => WaitOutcome::Cache(unstored),
            Err(late) => {
                if let Some(metrics) = metrics {
                    let verb = match read {
                        Read::Object(_) => "get",
                        Read::List(_) => "list",
                    };
                    metrics.expired(kind, verb);
                }
                WaitOutcome::Late(late)
            }
        }
    }

    /// Returns whether the informers have not advanced since the `unstored` objects were found absent. If so, a result
    /// that was read in between shows none of these objects.
    pub(crate) fn still_hold(&self, gvk: &Gvk, unstored: &[Unstored]) -> bool {
        unstored.iter().all(|Unstored { note, applied }| {
            let has = self.key_state(gvk, &note.key);
            has.is_none_or(|has| has.applied == *applied)
        })
    }

    /// Splits the writes into writes to objects that are absent, and writes that a read waits for. Drops the writes
    /// that no read waits for any more.
    fn sorted(&self, gvk: &Gvk, notes: Vec<Note>) -> (Vec<Unstored>, Vec<Note>) {
        let (mut unstored, mut pending) = (Vec::new(), Vec::new());
        for note in notes {
            match self.progress(gvk, &note) {
                InformerProgress::Over => {}
                InformerProgress::Unstored(applied) => unstored.push(Unstored { note, applied }),
                InformerProgress::Pending => pending.push(note),
            }
        }
        (unstored, pending)
    }

    /// Waits until the cache has seen the writes in `notes`. If the time limit of some writes is over, returns false
    /// and leaves only these writes in `notes`. The waits of earlier reads count towards the limit of a write (RYOW-5).
    async fn wait_until(&self, gvk: &Gvk, notes: &mut Vec<Note>, most: Duration) -> bool {
        loop {
            let now = Instant::now().into_std();
            self.lock().await_all(gvk, notes, now);
            let remaining = |note: &Note| note.remaining(most, now);
            let left = notes.iter().map(remaining).min().unwrap_or_default();
            if left.is_zero() {
                notes.retain(|note| remaining(note).is_zero());
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

    async fn until_over(&self, gvk: &Gvk, note: &Note) {
        // The informer is looked up each time, because its kind may be removed from the cache and watched again.
        while let Some(untyped) = self.cache.untyped_of(gvk, &note.key) {
            // The subscription is made before the check, so that a change between the check and the wait ends the wait.
            let mut applied = untyped.applied();
            if !self.is_pending(gvk, note) || applied.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_pending(&self, gvk: &Gvk, note: &Note) -> bool {
        matches!(self.progress(gvk, note), InformerProgress::Pending)
    }

    pub(super) fn progress(&self, gvk: &Gvk, note: &Note) -> InformerProgress {
        let Some(untyped) = self.cache.untyped_of(gvk, &note.key) else {
            self.lock().handle_seen(gvk, note);
            return InformerProgress::Over;
        };
        let key_state = untyped.key_state(&note.key);
        if note.is_seen(&key_state) {
            self.lock().handle_seen(gvk, note);
            return InformerProgress::Over;
        }
        // CACHE-2: no read waits for an informer that fails before its first sync, because the read fails at once.
        match (note.is_shown(&key_state), is_stuck(&untyped)) {
            (true, _) => InformerProgress::Unstored(key_state.applied),
            (false, true) => InformerProgress::Over,
            (false, false) => InformerProgress::Pending,
        }
    }
}
