//! Driver: notes what is written, and lets a read wait until the cache has seen what it has to see.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use steersman_cache::{Cache, Glimpse, InformerState as State, Mirror, Shown, Sight};
use steersman_object::{Gvk, Kind, ObjectKey, ResourceVersion};
use tokio::time::{Instant, timeout};

use crate::consistency::ReadConsistency;
use crate::options::ClientOptions;
use crate::own_writes::{
    Look, Mark, Marked, Note, OwnWrites, Read, Stored, Writer, Written as Noted,
};
use crate::write::{Outcome, RequestId, Write, WriteObserver, Written};

/// The writes of all clients that were made from one another, over one cache.
pub(crate) struct OwnReads {
    cache: Cache,
    writes: Mutex<OwnWrites>,
    /// How many of them were not seen yet: each read asks, and mostly there is none.
    unseen: AtomicUsize,
}

/// The writes, by whoever works with them.
struct Writes<'a> {
    writes: MutexGuard<'a, OwnWrites>,
    unseen: &'a AtomicUsize,
}

/// How a read goes on.
pub(crate) enum Settled {
    /// The cache has seen all that this read has to see.
    Cache,
    /// These were not seen in time.
    Late(Vec<Note>),
}

impl Writer {
    fn of(request: Option<&RequestId>) -> Self {
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

impl OwnReads {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            cache,
            writes: Mutex::default(),
            unseen: AtomicUsize::new(0),
        }
    }

    /// The writes that a read could show and of which nobody knows what became: the server has to be asked
    /// about each before the cache is read (RYOW-3).
    pub(crate) fn marks(
        &self,
        options: &ClientOptions,
        request: Option<&RequestId>,
        kind: &Kind,
        read: Read<'_>,
    ) -> Vec<Mark> {
        let Some(reader) = self.reader(options, request) else {
            return Vec::new();
        };
        let gvk = kind.gvk();
        let mut marks = self.writes().marks(reader, gvk, read);
        marks.retain(
            |mark| match self.cache.asks_in(gvk, mark.marked.namespace()) {
                // CACHE-2: what is known about a kind that never synced is told at once, by the read.
                Some(asks) => !is_stuck(asks.mirror()),
                None => {
                    self.asked(gvk, mark);
                    false
                }
            },
        );
        if let Some(metrics) = options.metrics.as_ref().filter(|_| !marks.is_empty()) {
            metrics.asked(kind);
        }
        marks
    }

    /// Notes what the server showed of what was marked, where the cache has not come so far; with that the mark
    /// has served.
    pub(crate) fn learn(&self, gvk: &Gvk, mark: &Mark, sight: &Sight) {
        let could_be = |shown: &&Shown| mark.marked.could_be(&shown.key);
        let is_news = |shown: &&Shown| self.is_news(gvk, &shown.key, &shown.version);
        for shown in sight.objects.iter().filter(could_be).filter(is_news) {
            let (key, uid) = (shown.key.clone(), shown.uid.clone());
            let version = shown.version.clone();
            self.note(mark.writer, gvk, Noted::Stored { key, uid, version });
        }
        if let (Marked::Object(key), []) = (&mark.marked, &*sight.objects)
            && self.is_news(gvk, key, &sight.at)
        {
            let (key, at) = (key.clone(), sight.at.clone());
            self.note(mark.writer, gvk, Noted::Absent { key, at });
        }
        // Last, so that no read finds neither.
        self.asked(gvk, mark);
    }

    /// The server was asked about what was marked.
    pub(crate) fn asked(&self, gvk: &Gvk, mark: &Mark) {
        self.writes().asked(gvk, mark);
    }

    /// Nobody waits any more for what was not seen in time.
    pub(crate) fn give_up(&self, gvk: &Gvk, late: &[Note]) {
        let mut writes = self.writes();
        for note in late {
            writes.seen(gvk, note);
        }
    }

    /// Waits until the cache has seen what a read has to see: what was written before this was called.
    ///
    /// Cancel safe.
    pub(crate) async fn settle(
        &self,
        options: &ClientOptions,
        request: Option<&RequestId>,
        kind: &Kind,
        read: Read<'_>,
    ) -> Settled {
        let Some(reader) = self.reader(options, request) else {
            return Settled::Cache;
        };
        let gvk = kind.gvk();
        let mut notes = self.writes().owed(reader, gvk, read);
        notes.retain(|note| !self.is_over(gvk, note));
        if notes.is_empty() {
            return Settled::Cache;
        }
        let started = Instant::now();
        let in_time = self.wait(gvk, &mut notes, options.own_write_wait).await;
        let metrics = options.metrics.as_ref();
        let waited = Some(started.elapsed()).filter(|waited| !waited.is_zero());
        if let Some((metrics, waited)) = metrics.zip(waited) {
            metrics.waited(kind, waited);
        }
        match in_time {
            true => Settled::Cache,
            false => Self::too_late(options, kind, read, notes),
        }
    }

    /// Waits until the cache has seen these, or `most` is over for some of them, which are left then. Those that
    /// reads waited for before have so much less (RYOW-5).
    async fn wait(&self, gvk: &Gvk, notes: &mut Vec<Note>, most: Duration) -> bool {
        loop {
            let now = Instant::now().into_std();
            self.writes().await_all(gvk, notes, now);
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
            notes.retain(|note| !self.is_over(gvk, note));
            if notes.is_empty() {
                return true;
            }
        }
    }

    fn too_late(options: &ClientOptions, kind: &Kind, read: Read<'_>, notes: Vec<Note>) -> Settled {
        if let Some(metrics) = &options.metrics {
            let verb = match read {
                Read::Object(_) => "get",
                Read::List(_) => "list",
            };
            metrics.expired(kind, verb);
        }
        Settled::Late(notes)
    }

    async fn until_over(&self, gvk: &Gvk, note: &Note) {
        // Each time anew: a kind may be removed from the cache, and begin again.
        while let Some(mirror) = self.cache.mirror_of(gvk, &note.key) {
            // Before the look, so that what comes between the look and the wait ends the wait.
            let mut applied = mirror.applied();
            if self.is_over(gvk, note) || applied.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether nobody has to wait for a write any more; forgets it where that is because it was seen.
    fn is_over(&self, gvk: &Gvk, note: &Note) -> bool {
        let Some(mirror) = self.cache.mirror_of(gvk, &note.key) else {
            self.writes().seen(gvk, note);
            return true;
        };
        let glimpse = mirror.glimpse(&note.key);
        let look = look(&glimpse);
        if note.is_seen(look) {
            self.writes().seen(gvk, note);
        }
        // CACHE-2: what is known about a kind that never synced is told at once, by the read.
        note.is_shown(look) || is_stuck(&mirror)
    }

    /// Whether an informer that covers the object runs, and has not come as far as a version of it.
    fn is_news(&self, gvk: &Gvk, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let glimpse = self.glimpse(gvk, key);
        glimpse.is_some_and(|has| !look(&has).has_come(version))
    }

    fn note(&self, writer: Writer, gvk: &Gvk, noted: Noted) {
        let now = Instant::now().into_std();
        let mut writes = self.writes();
        writes.note(writer, gvk, noted, now);
        let is_seen = |gvk: &Gvk, note: &Note| {
            let glimpse = self.glimpse(gvk, &note.key);
            glimpse.is_none_or(|has| note.is_seen(look(&has)))
        };
        let follows = |gvk: &Gvk, mark: &Mark| {
            let asks = self.cache.asks_in(gvk, mark.marked.namespace());
            asks.is_none_or(|asks| asks.mirror().state().is_synced())
        };
        writes.sweep(now, is_seen, follows);
    }

    /// RYOW-4: what a write is noted as; nothing where no informer would hold what was written.
    fn noted(&self, write: &Write, outcome: &Outcome<'_>) -> Option<Noted> {
        match outcome {
            Outcome::Done(written) => self.done(write, written.as_ref()?),
            Outcome::Refused(_) => None,
            // Of its labels nothing is known: one that covers the namespace is enough.
            Outcome::Unknown(_) => {
                let namespace = write.namespace.as_deref();
                self.cache.asks_in(write.kind.gvk(), namespace)?;
                Some(Noted::Unknown(match (&write.key, &write.generate_name) {
                    (Some(key), _) => Marked::Object(key.clone()),
                    (None, Some(begins)) => Marked::generated(namespace, begins),
                    // What is deleted of a collection is not noted where it is known either.
                    (None, None) => return None,
                }))
            }
        }
    }

    fn done(&self, write: &Write, written: &Written) -> Option<Noted> {
        let (gvk, key) = (write.kind.gvk(), &written.key);
        let is_stored = || {
            let stored = self.glimpse(gvk, key)?.stored;
            stored.filter(|stored| stored.uid == written.uid)
        };
        // Of an answer that is not the object there are no labels: what is stored is held.
        let labels = written.labels.as_ref();
        let held = labels.is_some_and(|labels| self.cache.would_hold(gvk, key, labels))
            || ((labels.is_none() || write.verb == "delete") && is_stored().is_some());
        let (key, uid) = (key.clone(), written.uid.clone());
        if write.verb == "delete" {
            // What was made and never stored is waited for, to come and to go.
            let is_owed = held || labels.is_none() && self.cache.mirror_of(gvk, &key).is_some();
            return is_owed.then_some(Noted::Deleted { key, uid });
        }
        let version = written.version.clone();
        held.then_some(Noted::Stored { key, uid, version })
    }

    /// Whose writes a read has to see: those of one key, or (`None`) everybody's; nobody's where there is no reader,
    /// and where nothing is noted, as mostly.
    fn reader(
        &self,
        options: &ClientOptions,
        request: Option<&RequestId>,
    ) -> Option<Option<Writer>> {
        if self.unseen() == 0 {
            return None;
        }
        match options.consistency {
            ReadConsistency::OwnKey => request.map(|request| Some(Writer::of(Some(request)))),
            ReadConsistency::Process => Some(None),
            ReadConsistency::None => None,
        }
    }

    /// What the cache has of an object, where an informer runs that covers it.
    fn glimpse(&self, gvk: &Gvk, key: &ObjectKey) -> Option<Glimpse> {
        Some(self.cache.mirror_of(gvk, key)?.glimpse(key))
    }

    /// How many writes were not seen yet.
    pub(crate) fn unseen(&self) -> usize {
        self.unseen.load(Ordering::Acquire)
    }

    fn writes(&self) -> Writes<'_> {
        Writes {
            writes: self.writes.lock(),
            unseen: &self.unseen,
        }
    }
}

impl Deref for Writes<'_> {
    type Target = OwnWrites;

    fn deref(&self) -> &OwnWrites {
        &self.writes
    }
}

impl DerefMut for Writes<'_> {
    fn deref_mut(&mut self) -> &mut OwnWrites {
        &mut self.writes
    }
}

/// Under the lock still (RYOW-1): who noted a write before a read began has counted it.
impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.unseen.store(self.writes.len(), Ordering::Release);
    }
}

impl WriteObserver for OwnReads {
    fn ended(&self, write: &Write, outcome: &Outcome<'_>) {
        if let Some(noted) = self.noted(write, outcome) {
            let writer = Writer::of(write.request.as_ref());
            self.note(writer, write.kind.gvk(), noted);
        }
    }
}

impl std::fmt::Debug for OwnReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnReads")
            .field("unseen", &self.unseen())
            .finish_non_exhaustive()
    }
}

fn look(has: &Glimpse) -> Look<'_> {
    let stored = has.stored.as_ref().map(|stored| Stored {
        uid: &stored.uid,
        version: &stored.version,
        is_deleting: stored.is_deleting,
    });
    Look {
        applied: &has.applied,
        stored,
    }
}

/// Whether it stands still before its first list was complete.
fn is_stuck(mirror: &Mirror) -> bool {
    matches!(mirror.state(), State::Degraded { .. }) && !mirror.has_synced()
}
