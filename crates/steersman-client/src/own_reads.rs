//! Driver: notes what is written, and lets a read wait until the cache has seen what it has to see.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;
use steersman_cache::{Cache, Glimpse, InformerState as State, Mirror};
use steersman_object::{Gvk, Kind, Object, ObjectKey};
use tokio::time::{Instant, timeout};

use crate::consistency::ReadConsistency;
use crate::options::ClientOptions;
use crate::own_writes::{Look, Note, OwnWrites, Read, Stored, Unknown, Writer, Written as Noted};
use crate::write::{Outcome, RequestId, Write, WriteObserver, Written};

/// The writes of all clients that were made from one another, over one cache.
pub(crate) struct OwnReads {
    cache: Cache,
    writes: Mutex<OwnWrites>,
}

/// How a read goes on.
pub(crate) enum Settled<'a> {
    /// The cache has seen all that this read has to see.
    Cache,
    /// Nobody knows what became of a write: the server is asked.
    Ask(Asking<'a>),
    /// These were not seen in time.
    Late(Vec<ObjectKey>),
}

/// A read that asks the server for writes whose outcome nobody knows. Dropped before it has learned, the next
/// read asks.
pub(crate) struct Asking<'a> {
    own: &'a OwnReads,
    gvk: Gvk,
    writer: Writer,
    unknown: Vec<Unknown>,
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
    ) -> Settled<'_> {
        let reader = match (options.consistency, request) {
            (ReadConsistency::OwnKey, Some(request)) => Some(Writer::of(Some(request))),
            (ReadConsistency::Process, _) => None,
            (ReadConsistency::OwnKey | ReadConsistency::None, _) => return Settled::Cache,
        };
        let gvk = kind.gvk();
        let owed = self.writes.lock().owed(reader, gvk, read);
        if !owed.unknown.is_empty() {
            if let Some(metrics) = &options.metrics {
                metrics.asked(kind);
            }
            return Settled::Ask(Asking {
                own: self,
                gvk: gvk.clone(),
                writer: reader.unwrap_or_else(|| Writer::of(request)),
                unknown: owed.unknown,
            });
        }
        let mut notes = owed.notes;
        notes.retain(|note| !self.is_over(gvk, note));
        if notes.is_empty() {
            return Settled::Cache;
        }
        if notes.iter().any(Note::is_late) {
            notes.retain(Note::is_late);
            return Self::too_late(options, kind, read, notes);
        }
        let started = Instant::now();
        let all = async {
            for note in &notes {
                self.until_over(gvk, note).await;
            }
        };
        // RYOW-5
        let in_time = timeout(options.own_write_wait, all).await.is_ok();
        if let Some(metrics) = &options.metrics {
            metrics.waited(kind, started.elapsed());
        }
        if in_time {
            return Settled::Cache;
        }
        notes.retain(|note| !self.is_over(gvk, note));
        let mut writes = self.writes.lock();
        for note in &notes {
            writes.late(gvk, note);
        }
        drop(writes);
        Self::too_late(options, kind, read, notes)
    }

    fn too_late<'a>(
        options: &ClientOptions,
        kind: &Kind,
        read: Read<'_>,
        notes: Vec<Note>,
    ) -> Settled<'a> {
        if let Some(metrics) = &options.metrics {
            let verb = match read {
                Read::Object(_) => "get",
                Read::List(_) => "list",
            };
            metrics.expired(kind, verb);
        }
        Settled::Late(notes.into_iter().map(|note| note.key).collect())
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
            self.writes.lock().seen(gvk, note);
            return true;
        };
        let seen = is_seen(&mirror, note);
        if seen {
            self.writes.lock().seen(gvk, note);
        }
        // CACHE-2: what is known about a kind that never synced is told at once, by the read.
        seen || is_stuck(&mirror)
    }

    /// Notes an object that the server showed, where the cache has not come so far.
    fn learn<K: Object>(&self, writer: Writer, gvk: &Gvk, object: &K) {
        let labels = object.meta().labels.clone().unwrap_or_default();
        let key = object.key();
        if self.cache.would_hold(gvk, &key, &labels) {
            self.note(
                writer,
                gvk,
                Noted::Stored {
                    key,
                    uid: object.uid_str().to_owned(),
                    version: object.stored_version(),
                },
            );
        }
    }

    /// Notes that an object is gone from the server, where the cache has it.
    fn learn_gone(&self, writer: Writer, gvk: &Gvk, key: &ObjectKey) {
        let mirror = self.cache.mirror_of(gvk, key);
        if let Some(stored) = mirror.and_then(|mirror| mirror.glimpse(key).stored) {
            let (key, uid) = (key.clone(), stored.uid);
            self.note(writer, gvk, Noted::Deleted { key, uid });
        }
    }

    fn note(&self, writer: Writer, gvk: &Gvk, noted: Noted) {
        let now = Instant::now().into_std();
        let mut writes = self.writes.lock();
        writes.note(writer, gvk, noted, now);
        let is_seen = |gvk: &Gvk, note: &Note| {
            let mirror = self.cache.mirror_of(gvk, &note.key);
            mirror.is_none_or(|mirror| is_seen(&mirror, note))
        };
        let follows = |gvk: &Gvk, unknown: &Unknown| {
            let name = unknown.name.as_deref().unwrap_or_default();
            let key = key_of(unknown.namespace.as_deref(), name);
            let mirror = self.cache.mirror_of(gvk, &key);
            mirror.is_none_or(|mirror| mirror.state().is_synced())
        };
        writes.sweep(now, is_seen, follows);
    }

    /// RYOW-4: what a write is noted as; nothing where no informer would hold what was written.
    fn noted(&self, write: &Write, outcome: &Outcome<'_>) -> Option<Noted> {
        match outcome {
            Outcome::Done(written) => self.done(write, written.as_ref()?),
            Outcome::Refused(_) => None,
            Outcome::Unknown(_) => {
                let name = write.key.as_ref().map(|key| key.name().to_owned());
                let somewhere = ObjectKey::of_meta(&kube_core::ObjectMeta {
                    namespace: write.namespace.clone(),
                    name: name.clone(),
                    ..kube_core::ObjectMeta::default()
                });
                // One that covers the namespace is enough: of its labels nothing is known. A collection of
                // all namespaces has none.
                let held = write.namespace.is_none()
                    || self.cache.mirror_of(write.kind.gvk(), &somewhere).is_some();
                held.then(|| Noted::Unknown {
                    namespace: write.namespace.clone(),
                    name,
                })
            }
        }
    }

    fn done(&self, write: &Write, written: &Written) -> Option<Noted> {
        let (gvk, key) = (write.kind.gvk(), &written.key);
        let is_stored = || {
            let stored = self.cache.mirror_of(gvk, key)?.glimpse(key).stored;
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

    /// How many writes were not seen yet.
    pub(crate) fn unseen(&self) -> usize {
        self.writes.lock().len()
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

impl Asking<'_> {
    /// What the server has of an object that was asked for.
    pub(crate) fn found<K: Object>(mut self, key: &ObjectKey, object: Option<&K>) {
        match object {
            Some(object) => self.own.learn(self.writer, &self.gvk, object),
            None => self.own.learn_gone(self.writer, &self.gvk, key),
        }
        self.unknown.clear();
    }

    /// What the server has of a list that was asked for; `whole` where it is all there is in its namespace.
    pub(crate) fn listed<K: Object>(mut self, objects: &[K], whole: bool) {
        for object in objects {
            self.own.learn(self.writer, &self.gvk, object);
        }
        for unknown in std::mem::take(&mut self.unknown) {
            let Some(name) = unknown.name.as_deref().filter(|_| whole) else {
                continue;
            };
            let key = key_of(unknown.namespace.as_deref(), name);
            if !objects.iter().any(|object| object.key() == key) {
                self.own.learn_gone(self.writer, &self.gvk, &key);
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // RYOW-3: the server did not answer, so nobody knows still.
        for Unknown {
            namespace, name, ..
        } in std::mem::take(&mut self.unknown)
        {
            let noted = Noted::Unknown { namespace, name };
            self.own.note(self.writer, &self.gvk, noted);
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

fn key_of(namespace: Option<&str>, name: &str) -> ObjectKey {
    match namespace {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

fn is_seen(mirror: &Mirror, note: &Note) -> bool {
    let Glimpse {
        applied, stored, ..
    } = mirror.glimpse(&note.key);
    let stored = stored.as_ref().map(|stored| Stored {
        uid: &stored.uid,
        version: &stored.version,
        is_deleting: stored.is_deleting,
    });
    note.is_seen(Look {
        applied: &applied,
        stored,
    })
}

/// Whether it stands still before its first list was complete.
fn is_stuck(mirror: &Mirror) -> bool {
    matches!(mirror.state(), State::Degraded { .. }) && !mirror.has_synced()
}
