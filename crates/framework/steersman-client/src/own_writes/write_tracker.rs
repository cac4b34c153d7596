//! Driver: records the writes of clients, and returns the writes that a read must see.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use steersman_cache::internal::{CacheInternals as _, LiveIdentity, LiveList, Membership};
use steersman_cache::{Cache, InformerState, KeyState, UntypedInformer};
use steersman_object::{Gvk, Kind, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::unseen_writes::{
    AnswerBudget, Filter, Note, NotedWrite, Question, Read, UncertainObject, UnseenWrites,
    WriterHash,
};
use crate::options::ClientOptions;
use crate::write::{
    RequestId, StateBeforeDelete, Write, WriteObserver, WriteOutcome, WrittenObject,
};

mod wait;

use wait::InformerProgress;
pub(crate) use wait::{Unstored, WaitOutcome};

/// Records the writes of a client and all its copies until their common cache has seen them.
#[derive(derive_more::Debug)]
#[debug("WriteTracker {{ unseen: {:?}, .. }}", filter.len())]
pub(crate) struct WriteTracker {
    cache: Cache,
    writes: Mutex<UnseenWrites>,
    /// Shows most reads, without a lock, that no remembered write concerns them (RYOW-11).
    filter: Arc<Filter>,
    answers: AnswerBudget,
    #[cfg(test)]
    locked: std::sync::atomic::AtomicUsize,
}

/// The writes that a read must see before it returns.
#[derive(Debug, Default)]
pub(crate) struct RequiredWrites {
    /// The writes with an unknown result, which the server is asked about before the read (RYOW-3).
    pub(crate) questions: Vec<Question>,
    /// The writes with a known result, which the cache must have seen before the read (RYOW-1).
    pub(crate) notes: Vec<Note>,
}

impl WriterHash {
    pub(crate) fn of(request: Option<&RequestId>) -> Self {
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl WriteTracker {
    /// Returns the number of writes that the cache has not seen, and forgets the others.
    pub(crate) fn unseen(&self) -> usize {
        let mut writes = self.lock();
        self.sweep(&mut writes, true);
        writes.len()
    }

    pub(crate) fn new(cache: Cache) -> Self {
        let writes = UnseenWrites::default();
        Self {
            cache,
            filter: writes.filter(),
            writes: Mutex::new(writes),
            answers: AnswerBudget::default(),
            #[cfg(test)]
            locked: Default::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, UnseenWrites> {
        #[cfg(test)]
        self.locked
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.writes.lock()
    }

    #[cfg(test)]
    pub(crate) fn locked(&self) -> usize {
        self.locked.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns whether a read for `reader` (`None`: all request keys) of the object with this name (`None`: a list) may
    /// have to wait for a write. Takes no lock, and mostly returns false if only other keys have written (RYOW-11).
    pub(crate) fn may_owe(&self, reader: Option<WriterHash>, name: Option<&str>) -> bool {
        self.filter.may_owe(reader, name)
    }

    pub(crate) fn owes(&self, reader: Option<WriterHash>, gvk: &Gvk, read: Read<'_>) -> bool {
        self.may_owe(reader, read.name()) && self.lock().owes(reader, gvk, read)
    }

    /// Returns the earlier writes that a read must see and that the cache does not show yet. Forgets the writes that
    /// the cache has seen.
    pub(crate) fn owed(
        &self,
        options: &ClientOptions,
        reader: Option<WriterHash>,
        kind: &Kind,
        read: Read<'_>,
    ) -> RequiredWrites {
        let gvk = kind.gvk();
        if !self.may_owe(reader, read.name()) {
            return RequiredWrites::default();
        }
        let writes = self.lock();
        let mut questions = writes.questions(reader, gvk, read);
        let mut notes = writes.owed(reader, gvk, read);
        drop(writes);
        questions.retain(|question| {
            match self.cache.live_reads(gvk, question.subject.namespace()) {
                // CACHE-2: the server is not asked about a write of a kind with an informer that fails before its first
                // sync, because a cached read of the kind fails at once in any case.
                Some(reads) if is_stuck(reads.untyped()) => return false,
                Some(_) if !self.is_passed(gvk, question) => return true,
                _ => {}
            }
            self.close(gvk, question);
            false
        });
        notes.retain(|note| !matches!(self.progress(gvk, note), InformerProgress::Over));
        if let Some(metrics) = options.metrics.as_ref().filter(|_| !questions.is_empty()) {
            metrics.asked(kind);
        }
        RequiredWrites { questions, notes }
    }

    /// Settles a write with an unknown result (question) by the server's list of its objects: records the listed
    /// objects, or the absence of the object, as known writes, unless the cache has reached their versions.
    pub(crate) fn learn(&self, gvk: &Gvk, question: &Question, list: &LiveList) {
        let could_be = |object: &&LiveIdentity| question.subject.could_be(&object.key);
        let is_news = |object: &&LiveIdentity| self.is_news(gvk, &object.key, &object.version);
        for object in list.objects.iter().filter(could_be).filter(is_news) {
            let noted = NotedWrite::Stored {
                key: object.key.clone(),
                uid: object.uid.clone(),
                version: object.version.clone(),
                answer: None,
            };
            self.note(question.writer, gvk, noted);
        }
        if let (UncertainObject::Object(key), []) = (&question.subject, &*list.objects)
            && self.is_news(gvk, key, &list.version)
        {
            let (key, at) = (key.clone(), list.version.clone());
            self.note(question.writer, gvk, NotedWrite::Absent { key, at });
        }
        // `question` is forgotten only after the writes are recorded, so that a concurrent read finds the question or
        // the writes.
        self.close(gvk, question);
    }

    pub(crate) fn close(&self, gvk: &Gvk, question: &Question) {
        self.lock().handle_answer(gvk, question);
    }

    /// Forgets writes that the cache did not show in time, so that later reads do not wait for these writes again.
    pub(crate) fn give_up(&self, gvk: &Gvk, late: &[Note]) {
        let mut writes = self.lock();
        for note in late {
            writes.handle_seen(gvk, note);
        }
    }

    /// Returns whether a running informer covers the object and has not reached this version of the object: a read
    /// would have to wait for it.
    fn is_news(&self, gvk: &Gvk, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let key_state = self.key_state(gvk, key);
        key_state.is_some_and(|has| !has.has_reached(version))
    }

    fn note(&self, writer: WriterHash, gvk: &Gvk, noted: NotedWrite) {
        let mut writes = self.lock();
        writes.handle_write(writer, gvk, noted, Instant::now().into_std());
        self.sweep(&mut writes, false);
    }

    fn sweep(&self, writes: &mut UnseenWrites, always: bool) {
        let now = Instant::now().into_std();
        let is_seen = |gvk: &Gvk, note: &Note| {
            let key_state = self.key_state(gvk, &note.key);
            key_state.is_none_or(|has| note.is_seen(&has))
        };
        let is_passed = |gvk: &Gvk, question: &Question| self.is_passed(gvk, question);
        let follows = |gvk: &Gvk, question: &Question| {
            let reads = self.cache.live_reads(gvk, question.subject.namespace());
            reads.is_none_or(|reads| reads.untyped().state().is_synced())
        };
        writes.sweep(now, always, is_seen, is_passed, follows);
    }

    /// Returns whether the informer that covers the object of a question (a write with an unknown result) has reached
    /// the version of the write, or no informer covers the object.
    fn is_passed(&self, gvk: &Gvk, question: &Question) -> bool {
        match (&question.subject, &question.version) {
            (UncertainObject::Object(key), Some(version)) => {
                let key_state = self.key_state(gvk, key);
                key_state.is_none_or(|has| has.has_reached(version))
            }
            _ => false,
        }
    }

    /// Returns the known state of an object before its delete is sent: its uid in the cache, and `version`, a version
    /// at which the object existed, as the caller knows.
    pub(crate) fn before_delete(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        version: Option<ResourceVersion>,
    ) -> StateBeforeDelete {
        let stored = self.key_state(gvk, key).and_then(|has| has.stored);
        StateBeforeDelete {
            stored: stored.map(|stored| stored.uid),
            version,
        }
    }

    /// Reports the version of a write to the cache: first lists of informers that start later must reach it (RYOW-10).
    pub(crate) fn note_version(&self, write: &Write, outcome: &WriteOutcome<'_>) {
        let version = match outcome {
            WriteOutcome::Refused(_) => return,
            // The answer to a delete may have the version before the delete. So the version of the delete counts as
            // unknown, and an informer that starts later lists the newest state.
            WriteOutcome::Done(Some(written)) if !is_delete(write, written) => {
                written.version.clone()
            }
            WriteOutcome::Done(_) | WriteOutcome::Unknown(_) => ResourceVersion::unset(),
        };
        self.cache.note_written(write.kind.gvk(), &version);
    }

    /// Returns the result of a write for later reads; `None` if it was refused, or the cache will not show it (RYOW-4).
    fn noted(&self, write: &Write, outcome: &WriteOutcome<'_>) -> Option<NotedWrite> {
        match outcome {
            WriteOutcome::Done(written) => {
                let written = written.as_ref()?;
                // A deleted object with a finalizer or a grace period still exists, at the version in the answer, so
                // its delete counts as a change of the object.
                match is_delete(write, written) {
                    true => self.deleted(write, written),
                    false => self.stored(write, written),
                }
            }
            WriteOutcome::Refused(_) => None,
            // Without the labels of the object, it is unknown whether an informer selects the object. So the write is
            // remembered if any informer covers the namespace.
            WriteOutcome::Unknown(_) => {
                let namespace = write.namespace.as_deref();
                self.cache.live_reads(write.kind.gvk(), namespace)?;
                Some(NotedWrite::Unknown(
                    match (&write.key, &write.generate_name) {
                        (Some(key), _) => UncertainObject::Object(key.clone()),
                        (None, Some(begins)) => UncertainObject::generated(namespace, begins),
                        // The delete of a collection: reads never wait for it, whatever its outcome.
                        (None, None) => return None,
                    },
                ))
            }
        }
    }

    fn deleted(&self, write: &Write, written: &WrittenObject) -> Option<NotedWrite> {
        let key = written.key.clone();
        let _covering = self.cache.untyped_of(write.kind.gvk(), &key)?;
        let StateBeforeDelete { stored, version } = &write.before;
        let answered = Some(&written.version).filter(|version| version.is_exact());
        Some(NotedWrite::Deleted {
            key,
            was_stored: stored.as_ref() == Some(&written.uid),
            at: answered.or(version.as_ref()).cloned(),
            is_final: written.finalized,
            uid: written.uid.clone(),
        })
    }

    fn stored(&self, write: &Write, written: &WrittenObject) -> Option<NotedWrite> {
        let (gvk, key) = (write.kind.gvk(), written.key.clone());
        let (uid, version) = (written.uid.clone(), written.version.clone());
        let membership = self.cache.membership(gvk, &key, written.labels.as_ref())?;
        let has = self.key_state(gvk, &key)?;
        let stored = has.stored.as_ref();
        // RYOW-12: the answer to a delete may hold the state before the delete, so no read may return it.
        let body = written.body.as_ref().filter(|_| write.verb != "delete");
        match membership {
            Membership::Inside => Some(NotedWrite::Stored {
                key,
                uid,
                version,
                answer: body.and_then(|body| self.answers.keep(body)),
            }),
            // RYOW-8: an object that is created outside the selectors is never in the cache, unless the cache held
            // another object of its name.
            Membership::Outside if write.verb == "create" && stored.is_none() => None,
            Membership::Outside => Some(NotedWrite::Absent { key, at: version }),
            _ if has.has_reached(&version) => None,
            // The cache holds this object, so its informer receives the write: as a change or, if the selectors no
            // longer select the object, as a deletion.
            _ if stored.is_some_and(|stored| stored.uid == uid) => Some(NotedWrite::Stored {
                key,
                uid,
                version,
                answer: None,
            }),
            _ => Some(NotedWrite::Unconfirmed { key, version }),
        }
    }

    /// Returns the state of an object in the cache, if a running informer covers the object.
    fn key_state(&self, gvk: &Gvk, key: &ObjectKey) -> Option<KeyState> {
        Some(self.cache.untyped_of(gvk, key)?.key_state(key))
    }
}

impl WriteObserver for WriteTracker {
    fn ended(&self, write: &Write, outcome: &WriteOutcome<'_>) {
        if let Some(noted) = self.noted(write, outcome) {
            let writer = WriterHash::of(write.request.as_ref());
            self.note(writer, write.kind.gvk(), noted);
        }
    }
}

/// Returns whether no object is left after a write: after a delete without finalizers or grace period, or after a write
/// that removed the last finalizer.
fn is_delete(write: &Write, written: &WrittenObject) -> bool {
    match write.verb {
        "delete" => !written.deleting,
        _ => written.finalized,
    }
}

/// Returns whether the requests of an informer fail, and its first list has never completed.
fn is_stuck(untyped: &UntypedInformer) -> bool {
    matches!(untyped.state(), InformerState::Degraded { .. }) && !untyped.has_synced()
}
