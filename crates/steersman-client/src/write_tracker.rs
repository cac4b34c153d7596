//! Driver: notes what is written, and lets a read wait until the cache has seen what it has to see.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use steersman_cache::internal::{CacheInternals as _, LiveIdentity, LiveList, Membership};
use steersman_cache::{Cache, Glimpse, InformerState as State, Mirror};
use steersman_object::{Gvk, Kind, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::consistency::ReadConsistency;
use crate::options::ClientOptions;
use crate::unseen_writes::{
    CacheState, Filter, Note, NotedWrite, Question, Read, StoredObject, Subject, UnseenWrites,
    Writer,
};
use crate::write::{Before, Outcome, RequestId, Write, WriteObserver, Written};

mod wait;

use wait::Progress;
pub(crate) use wait::{Unstored, Waited};

/// The writes of all clients that were made from one another, over one cache.
pub(crate) struct WriteTracker {
    cache: Cache,
    writes: Mutex<UnseenWrites>,
    /// Tells most reads that nothing concerns them, without the lock (RYOW-11).
    filter: Arc<Filter>,
    /// How often the lock was taken.
    #[cfg(test)]
    locked: std::sync::atomic::AtomicUsize,
}

/// What a read has to see before the cache is read.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// The server has to be asked about each of these first (RYOW-3).
    pub(crate) questions: Vec<Question>,
    /// The cache has to see each of these (RYOW-1).
    pub(crate) notes: Vec<Note>,
}

impl Writer {
    pub(crate) fn of(request: Option<&RequestId>) -> Self {
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Whether the writes of such a client are noted: those for a key, and all where any key waits for them.
pub(crate) fn is_noted(options: &ClientOptions, request: Option<&RequestId>) -> bool {
    match options.consistency {
        ReadConsistency::OwnKey => request.is_some(),
        ReadConsistency::Process => true,
        ReadConsistency::None => false,
    }
}

impl WriteTracker {
    pub(crate) fn new(cache: Cache) -> Self {
        let writes = UnseenWrites::default();
        Self {
            cache,
            filter: writes.filter(),
            writes: Mutex::new(writes),
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

    /// How often the lock was taken.
    #[cfg(test)]
    pub(crate) fn locked(&self) -> usize {
        self.locked.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether a read may have to see something: of the object of this name, or (`None`) of a list. Takes no lock,
    /// and is mostly false where only others wrote (RYOW-11).
    pub(crate) fn may_owe(
        &self,
        options: &ClientOptions,
        writer: Option<Writer>,
        name: Option<&str>,
    ) -> bool {
        reader(options, writer).is_some_and(|reader| self.filter.may_owe(reader, name))
    }

    /// Whether a read has to see something.
    pub(crate) fn owes(
        &self,
        options: &ClientOptions,
        writer: Option<Writer>,
        gvk: &Gvk,
        read: Read<'_>,
    ) -> bool {
        self.may_owe(options, writer, read.name())
            && reader(options, writer).is_some_and(|reader| self.lock().owes(reader, gvk, read))
    }

    /// What a read has to see: what was written before this was called.
    pub(crate) fn owed(
        &self,
        options: &ClientOptions,
        writer: Option<Writer>,
        kind: &Kind,
        read: Read<'_>,
    ) -> Owed {
        let gvk = kind.gvk();
        let Some(reader) =
            reader(options, writer).filter(|reader| self.filter.may_owe(*reader, read.name()))
        else {
            return Owed::default();
        };
        let (mut questions, mut notes) = {
            let writes = self.lock();
            (
                writes.questions(reader, gvk, read),
                writes.owed(reader, gvk, read),
            )
        };
        questions.retain(|question| {
            match self.cache.live_reads(gvk, question.subject.namespace()) {
                // CACHE-2: what is known about a kind that never synced is told at once, by the read.
                Some(reads) if is_stuck(reads.mirror()) => return false,
                Some(_) if !self.is_passed(gvk, question) => return true,
                _ => {}
            }
            self.close(gvk, question);
            false
        });
        notes.retain(|note| !matches!(self.progress(gvk, note), Progress::Over));
        if let Some(metrics) = options.metrics.as_ref().filter(|_| !questions.is_empty()) {
            metrics.asked(kind);
        }
        Owed { questions, notes }
    }

    /// Notes what the server showed of what was subject, where the cache has not come so far; with that the question
    /// has served.
    pub(crate) fn learn(&self, gvk: &Gvk, question: &Question, list: &LiveList) {
        let could_be = |object: &&LiveIdentity| question.subject.could_be(&object.key);
        let is_news = |object: &&LiveIdentity| self.is_news(gvk, &object.key, &object.version);
        for object in list.objects.iter().filter(could_be).filter(is_news) {
            let (key, uid) = (object.key.clone(), object.uid.clone());
            let version = object.version.clone();
            self.note(
                question.writer,
                gvk,
                NotedWrite::Stored { key, uid, version },
            );
        }
        if let (Subject::Object(key), []) = (&question.subject, &*list.objects)
            && self.is_news(gvk, key, &list.version)
        {
            let (key, at) = (key.clone(), list.version.clone());
            self.note(question.writer, gvk, NotedWrite::Absent { key, at });
        }
        // Last, so that no read finds neither.
        self.close(gvk, question);
    }

    /// The server was asked about what was subject.
    pub(crate) fn close(&self, gvk: &Gvk, question: &Question) {
        self.lock().close(gvk, question);
    }

    /// Nobody waits any more for what was not seen in time.
    pub(crate) fn give_up(&self, gvk: &Gvk, late: &[Note]) {
        let mut writes = self.lock();
        for note in late {
            writes.seen(gvk, note);
        }
    }

    /// Whether an informer that covers the object runs, and has not come as far as a version of it.
    fn is_news(&self, gvk: &Gvk, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let glimpse = self.glimpse(gvk, key);
        glimpse.is_some_and(|has| !look(&has).has_come(version))
    }

    fn note(&self, writer: Writer, gvk: &Gvk, noted: NotedWrite) {
        let now = Instant::now().into_std();
        let mut writes = self.lock();
        writes.note(writer, gvk, noted, now);
        let is_seen = |gvk: &Gvk, note: &Note| {
            let glimpse = self.glimpse(gvk, &note.key);
            glimpse.is_none_or(|has| note.is_seen(look(&has)))
        };
        let is_passed = |gvk: &Gvk, question: &Question| self.is_passed(gvk, question);
        let follows = |gvk: &Gvk, question: &Question| {
            let reads = self.cache.live_reads(gvk, question.subject.namespace());
            reads.is_none_or(|reads| reads.mirror().state().is_synced())
        };
        writes.sweep(now, is_seen, is_passed, follows);
    }

    /// Whether the informer that covers the object of a question shows what became of the write, or there is none.
    fn is_passed(&self, gvk: &Gvk, question: &Question) -> bool {
        match (&question.subject, &question.version) {
            (Subject::Object(key), Some(version)) => {
                let glimpse = self.glimpse(gvk, key);
                glimpse.is_none_or(|has| look(&has).has_come(version))
            }
            _ => false,
        }
    }

    /// What the cache has of an object that is about to be deleted, and `version`, at which the caller knows it.
    pub(crate) fn before_delete(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        version: Option<ResourceVersion>,
    ) -> Before {
        let stored = self.glimpse(gvk, key).and_then(|has| has.stored);
        Before {
            stored: stored.map(|stored| stored.uid),
            version,
        }
    }

    /// Notes what a write came to for first lists: those of informers that do not run yet (RYOW-10).
    pub(crate) fn note_version(&self, write: &Write, outcome: &Outcome<'_>) {
        let version = match outcome {
            Outcome::Refused(_) => return,
            // The version in the answer of a delete may be the one before it.
            Outcome::Done(Some(written)) if !is_delete(write, written) => written.version.clone(),
            Outcome::Done(_) | Outcome::Unknown(_) => ResourceVersion::unset(),
        };
        self.cache.note_written(write.kind.gvk(), &version);
    }

    /// RYOW-4: what a write is noted as; nothing where no informer covers what was written.
    fn noted(&self, write: &Write, outcome: &Outcome<'_>) -> Option<NotedWrite> {
        match outcome {
            Outcome::Done(written) => {
                let written = written.as_ref()?;
                // What a finalizer or a grace period holds is there at the version in the answer.
                match is_delete(write, written) {
                    true => self.deleted(write, written),
                    false => self.stored(write, written),
                }
            }
            Outcome::Refused(_) => None,
            // Of its labels nothing is known: one that covers the namespace is enough.
            Outcome::Unknown(_) => {
                let namespace = write.namespace.as_deref();
                self.cache.live_reads(write.kind.gvk(), namespace)?;
                Some(NotedWrite::Unknown(
                    match (&write.key, &write.generate_name) {
                        (Some(key), _) => Subject::Object(key.clone()),
                        (None, Some(begins)) => Subject::generated(namespace, begins),
                        // What is deleted of a collection is not noted where it is known either.
                        (None, None) => return None,
                    },
                ))
            }
        }
    }

    fn deleted(&self, write: &Write, written: &Written) -> Option<NotedWrite> {
        let key = written.key.clone();
        let _covering = self.cache.mirror_of(write.kind.gvk(), &key)?;
        let Before { stored, version } = &write.before;
        let answered = Some(&written.version).filter(|version| version.is_exact());
        Some(NotedWrite::Deleted {
            key,
            was_stored: stored.as_ref() == Some(&written.uid),
            at: answered.or(version.as_ref()).cloned(),
            is_final: written.finalized,
            uid: written.uid.clone(),
        })
    }

    fn stored(&self, write: &Write, written: &Written) -> Option<NotedWrite> {
        let (gvk, key) = (write.kind.gvk(), written.key.clone());
        let (uid, version) = (written.uid.clone(), written.version.clone());
        let membership = self.cache.membership(gvk, &key, written.labels.as_ref())?;
        let has = self.glimpse(gvk, &key)?;
        let stored = has.stored.as_ref();
        match membership {
            Membership::Inside => Some(NotedWrite::Stored { key, uid, version }),
            // RYOW-8: what was created outside was never inside, unless another object had the name.
            Membership::Outside if write.verb == "create" && stored.is_none() => None,
            Membership::Outside => Some(NotedWrite::Absent { key, at: version }),
            _ if look(&has).has_come(&version) => None,
            // The informer hears of the write either way: the object changes, or leaves.
            _ if stored.is_some_and(|stored| stored.uid == uid) => {
                Some(NotedWrite::Stored { key, uid, version })
            }
            _ => Some(NotedWrite::Unjudged { key, version }),
        }
    }

    /// What the cache has of an object, where an informer runs that covers it.
    fn glimpse(&self, gvk: &Gvk, key: &ObjectKey) -> Option<Glimpse> {
        Some(self.cache.mirror_of(gvk, key)?.glimpse(key))
    }
}

/// The writer whose writes a read has to see; `Some(None)` for the writes of every key, `None` for none at all.
fn reader(options: &ClientOptions, writer: Option<Writer>) -> Option<Option<Writer>> {
    match options.consistency {
        ReadConsistency::OwnKey => writer.map(Some),
        ReadConsistency::Process => Some(None),
        ReadConsistency::None => None,
    }
}

impl WriteObserver for WriteTracker {
    fn ended(&self, write: &Write, outcome: &Outcome<'_>) {
        if let Some(noted) = self.noted(write, outcome) {
            let writer = Writer::of(write.request.as_ref());
            self.note(writer, write.kind.gvk(), noted);
        }
    }
}

impl std::fmt::Debug for WriteTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTracker")
            .field("unseen", &self.filter.len())
            .finish_non_exhaustive()
    }
}

/// Whether a write left no object: a delete of what nothing held, or a write that took the last finalizer.
fn is_delete(write: &Write, written: &Written) -> bool {
    match write.verb {
        "delete" => !written.deleting,
        _ => written.finalized,
    }
}

fn look(has: &Glimpse) -> CacheState<'_> {
    let stored = has.stored.as_ref().map(|stored| StoredObject {
        uid: &stored.uid,
        version: &stored.version,
        is_deleting: stored.is_deleting,
    });
    CacheState {
        applied: &has.applied,
        stored,
    }
}

/// Whether it stands still before its first list was complete.
fn is_stuck(mirror: &Mirror) -> bool {
    matches!(mirror.state(), State::Degraded { .. }) && !mirror.has_synced()
}
