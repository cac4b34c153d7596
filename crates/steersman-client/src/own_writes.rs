//! Machine: remembers what was written, and says what a read has to see before it is answered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

/// How many notes may be there before those that were seen are looked for, at least.
const SWEEP_AT_LEAST: usize = 256;
/// How long those that were seen may stay, however few they are, as long as something is written now and then.
const SWEEP_AFTER: Duration = Duration::from_secs(600);
/// How long it is kept that nobody knows what became of a write. Whatever became of it was over within
/// the minute that a server gives a request, and an informer that follows the server has seen it long
/// before this: who reads later than that reads it from the cache.
const UNKNOWN_FOR: Duration = Duration::from_secs(3600);
/// So much of a generated name is what was asked for; the rest is the server's
/// (apiserver, `names.MaxGeneratedNameLength`).
const GENERATED_FROM: usize = 58;

/// On whose behalf something is written and read: one key of one controller, as a number. Two keys with
/// one number would wait for each other's writes, and lose nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Writer(pub(crate) u64);

/// What a write came to, as far as reads are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The server stored the object at this version.
    Stored {
        key: ObjectKey,
        uid: String,
        version: ResourceVersion,
    },
    /// The server deleted the object, or noted that it shall go.
    Deleted { key: ObjectKey, uid: String },
    /// The server had no object of this key at this version (RYOW-7).
    Absent { key: ObjectKey, at: ResourceVersion },
    /// Nobody knows whether the server did it.
    Unknown(Marked),
}

/// What a write was about of which nobody knows what became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Object(ObjectKey),
    /// An object whose name the server was to make.
    Generated {
        namespace: Option<String>,
        prefix: String,
    },
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    Object(&'a ObjectKey),
    /// The objects of a namespace, or of all, whatever else selects some of them.
    List(Option<&'a str>),
}

/// What an informer has of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// Up to where the informer has applied what the server said.
    pub(crate) applied: &'a ResourceVersion,
    pub(crate) stored: Option<Stored<'a>>,
}

/// An object as an informer has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) uid: &'a str,
    pub(crate) version: &'a ResourceVersion,
    pub(crate) is_deleting: bool,
}

/// What a read of one object has to see. Each of it is true of the server, so an informer comes to see all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) key: ObjectKey,
    /// Of what was written, where something was.
    uid: Option<String>,
    /// The newest version that the server stored, where one is known.
    version: Option<ResourceVersion>,
    /// Whether what has the uid was deleted after that.
    deleted: bool,
    /// The newest version at which the server said that it has no such object. It names no uid: what the cache
    /// has since then, under whatever uid, may be alive.
    absent: Option<ResourceVersion>,
    /// When a read first waited for it.
    awaited: Option<Instant>,
    serial: u64,
    writer: Writer,
}

/// That nobody knows what became of a write. It stays until the server was asked about exactly that (RYOW-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) marked: Marked,
    pub(crate) writer: Writer,
    since: Instant,
    serial: u64,
}

/// Everything that was written through one client and not seen since (RYOW-1).
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    of: HashMap<(Writer, Gvk), Notes>,
    len: usize,
    sweep_at: usize,
    swept: Option<Instant>,
    serial: u64,
}

#[derive(Debug, Default)]
struct Notes {
    /// One for each key: a newer write makes the older one part of its past.
    unseen: HashMap<ObjectKey, Note>,
    marks: Vec<Mark>,
}

impl OwnWrites {
    /// Notes a write that is finished.
    pub(crate) fn note(&mut self, writer: Writer, gvk: &Gvk, written: Written, now: Instant) {
        self.serial += 1;
        self.swept.get_or_insert(now);
        let serial = self.serial;
        let of = (writer, gvk.clone());
        let note = |key: &ObjectKey, uid: Option<String>| Note {
            key: key.clone(),
            uid,
            version: None,
            deleted: false,
            absent: None,
            awaited: None,
            serial,
            writer,
        };
        let known = |key: &ObjectKey| self.of.get(&of)?.unseen.get(key);
        let new = match written {
            // A version that cannot be compared could be waited for in vain.
            Written::Stored { version, .. } | Written::Absent { at: version, .. }
                if version.compare(&version).is_none() =>
            {
                None
            }
            Written::Stored { key, uid, version } => {
                let new = Note {
                    version: Some(version),
                    ..note(&key, Some(uid))
                };
                new.after(known(&key))
            }
            Written::Deleted { key, uid } => Some(note(&key, Some(uid)).gone(known(&key))),
            Written::Absent { key, at } => note(&key, None).absent(known(&key), at),
            Written::Unknown(marked) => {
                let mark = Mark {
                    marked,
                    writer,
                    since: now,
                    serial,
                };
                self.mark(of, mark);
                return;
            }
        };
        if let Some(new) = new {
            let notes = self.of.entry(of).or_default();
            if notes.unseen.insert(new.key.clone(), new).is_none() {
                self.len += 1;
            }
        }
    }

    fn mark(&mut self, of: (Writer, Gvk), mark: Mark) {
        let notes = self.of.entry(of).or_default();
        let mut marks = notes.marks.iter_mut();
        match marks.find(|known| known.marked == mark.marked) {
            Some(known) => *known = mark,
            None => {
                notes.marks.push(mark);
                self.len += 1;
            }
        }
    }

    /// What a read on behalf of `writer` has to wait for; of everybody's writes where it is none.
    pub(crate) fn owed(&self, writer: Option<Writer>, gvk: &Gvk, read: Read<'_>) -> Vec<Note> {
        let concerned = |notes: &Notes| match read {
            Read::Object(key) => notes.unseen.get(key).cloned().into_iter().collect(),
            Read::List(namespace) => {
                let within = |note: &&Note| is_within(namespace, note.key.namespace());
                let notes = notes.unseen.values().filter(within);
                notes.cloned().collect::<Vec<_>>()
            }
        };
        self.notes(writer, gvk).flat_map(concerned).collect()
    }

    /// The writes that a read on behalf of `writer` could show and of which nobody knows what became: the server
    /// has to be asked about them first (RYOW-3).
    pub(crate) fn marks(&self, writer: Option<Writer>, gvk: &Gvk, read: Read<'_>) -> Vec<Mark> {
        let marks = self.notes(writer, gvk).flat_map(|notes| &notes.marks);
        let concerned = marks.filter(|mark| mark.marked.concerns(read));
        concerned.cloned().collect()
    }

    /// Reads wait for these from `now` on, or from when the first of them did: one that is given up in the
    /// middle leaves the rest of the time to those that follow it (RYOW-5).
    pub(crate) fn await_all(&mut self, gvk: &Gvk, notes: &mut [Note], now: Instant) {
        for note in notes {
            let of = self.of.get_mut(&(note.writer, gvk.clone()));
            let known = of.and_then(|notes| notes.unseen.get_mut(&note.key));
            let known = known.filter(|known| known.serial == note.serial);
            note.awaited = Some(match known {
                Some(known) => *known.awaited.get_or_insert(now),
                None => note.awaited.unwrap_or(now),
            });
        }
    }

    /// Drops a note that was seen; not a newer one of the same object.
    pub(crate) fn seen(&mut self, gvk: &Gvk, note: &Note) {
        self.drop_from(note.writer, gvk, |notes| {
            let known = notes.unseen.get(&note.key);
            if known.is_some_and(|known| known.serial == note.serial) {
                notes.unseen.remove(&note.key);
            }
        });
    }

    /// Drops a mark that was asked about; not a newer one of the same object.
    pub(crate) fn asked(&mut self, gvk: &Gvk, mark: &Mark) {
        self.drop_from(mark.writer, gvk, |notes| {
            notes.marks.retain(|known| known.serial != mark.serial);
        });
    }

    /// Drops what was seen by now of keys that never read again, and what nobody ever asked about, once
    /// there is enough of it to be worth the look, or after a while. `is_seen` asks the informer that covers the
    /// object, and `follows` whether one that covers the name follows the server; both are true where there is
    /// none.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        mut is_seen: impl FnMut(&Gvk, &Note) -> bool,
        mut follows: impl FnMut(&Gvk, &Mark) -> bool,
    ) {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= SWEEP_AFTER;
        let is_much = self.len >= self.sweep_at.max(SWEEP_AT_LEAST);
        if !is_much && !self.swept.is_some_and(is_old) {
            return;
        }
        self.of.retain(|(_, gvk), notes| {
            notes.unseen.retain(|_, note| !is_seen(gvk, note));
            notes.marks.retain(|mark| {
                let age = now.saturating_duration_since(mark.since);
                age < UNKNOWN_FOR || !follows(gvk, mark)
            });
            !notes.is_empty()
        });
        self.of.shrink_to(self.of.len() * 2);
        self.len = self.of.values().map(Notes::len).sum();
        // What stays is waited for, or soon seen: the next look comes when there is twice as much.
        self.sweep_at = self.len * 2;
        self.swept = Some(now);
    }

    /// How many writes were not seen yet.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The notes of one writer, or of all: only who reads for all goes through all.
    fn notes(&self, writer: Option<Writer>, gvk: &Gvk) -> impl Iterator<Item = &Notes> {
        let (one, all) = match writer {
            Some(writer) => (self.of.get(&(writer, gvk.clone())), None),
            None => (None, Some(self.of.iter())),
        };
        let all = all.into_iter().flatten();
        let of_kind = all.filter(move |((_, of), _)| of == gvk);
        one.into_iter().chain(of_kind.map(|(_, notes)| notes))
    }

    fn drop_from(&mut self, writer: Writer, gvk: &Gvk, drop: impl FnOnce(&mut Notes)) {
        let of = (writer, gvk.clone());
        if let Some(notes) = self.of.get_mut(&of) {
            let before = notes.len();
            drop(notes);
            self.len -= before - notes.len();
            if notes.is_empty() {
                self.of.remove(&of);
            }
        }
    }
}

impl Notes {
    fn len(&self) -> usize {
        self.unseen.len() + self.marks.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Note {
    /// For how long it is waited for yet, of `most` in all; as long as that where nobody began to.
    pub(crate) fn patience(&self, most: Duration, now: Instant) -> Duration {
        let waited = |since| now.saturating_duration_since(since);
        most.saturating_sub(self.awaited.map_or(Duration::ZERO, waited))
    }

    /// Whether an informer has seen the write (RYOW-2).
    pub(crate) fn is_seen(&self, look: Look<'_>) -> bool {
        let has_come = |version| look.has_come(version);
        self.is_shown(look) && self.absent.as_ref().is_none_or(has_come)
    }

    /// Whether a read of what an informer has finds nothing else than what is known, though it may not have come so
    /// far: what was absent and is not stored is not waited for (RYOW-7). The note stays, for what was stored before
    /// that may still come, and go.
    pub(crate) fn is_shown(&self, look: Look<'_>) -> bool {
        let has_come = self.version.as_ref().is_none_or(|v| look.has_come(v));
        // Another object that has the name since is as good as none; one that had it before is older than
        // what was written, and so it has not come.
        let is_gone =
            |stored: Stored<'_>| stored.is_deleting || Some(stored.uid) != self.uid.as_deref();
        let is_absent = look.stored.is_none() && look.applied.is_exact();
        has_come
            && (!self.deleted || look.stored.is_none_or(is_gone))
            && (is_absent || self.absent.as_ref().is_none_or(|at| look.has_come(at)))
    }

    /// The note of an object that was stored, where another one of its key is known; none where that is of a later
    /// write: of two at once, either answer may come first.
    fn after(mut self, known: Option<&Self>) -> Option<Self> {
        let Some(known) = known else {
            return Some(self);
        };
        let is_newer = |a: &Option<ResourceVersion>, b: &Option<ResourceVersion>| match (a, b) {
            (Some(a), Some(b)) => a.is_at_least(b),
            _ => false,
        };
        if is_newer(&known.version, &self.version) {
            return None;
        }
        // What was once deleted does not come back.
        self.deleted = known.deleted && known.uid == self.uid;
        self.absent.clone_from(&known.absent);
        Some(self)
    }

    /// The note of an object that is gone. What was stored before has to be seen too: an object that never
    /// appeared is not gone.
    fn gone(mut self, known: Option<&Self>) -> Self {
        let before = known.filter(|known| known.uid == self.uid);
        self.version = before.and_then(|known| known.version.clone());
        self.deleted = true;
        self.absent = known.and_then(|known| known.absent.clone());
        self
    }

    /// The note of an object that was absent at a version, and of what is known of it besides; none where that is
    /// newer: it was written, or asked about, while the question was under way.
    fn absent(mut self, known: Option<&Self>, at: ResourceVersion) -> Option<Self> {
        if let Some(known) = known {
            let mut versions = [&known.version, &known.absent].into_iter().flatten();
            if versions.any(|version| version.is_at_least(&at)) {
                return None;
            }
            self.uid.clone_from(&known.uid);
            self.version.clone_from(&known.version);
            self.deleted = known.deleted;
        }
        self.absent = Some(at);
        Some(self)
    }
}

impl Look<'_> {
    /// Whether the informer has come as far as a version, all in all or with this object.
    pub(crate) fn has_come(&self, version: &ResourceVersion) -> bool {
        let stored = self.stored.map(|stored| stored.version);
        self.applied.is_at_least(version) || stored.is_some_and(|s| s.is_at_least(version))
    }
}

impl Marked {
    /// An object whose name the server was to make of this.
    pub(crate) fn generated(namespace: Option<&str>, generate_name: &str) -> Self {
        let prefix = generate_name.get(..GENERATED_FROM);
        Self::Generated {
            namespace: namespace.map(ToOwned::to_owned),
            prefix: prefix.unwrap_or(generate_name).to_owned(),
        }
    }

    /// The namespace that it is in, where it is in one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Object(key) => key.namespace(),
            Self::Generated { namespace, .. } => namespace.as_deref(),
        }
    }

    /// Whether the write could have been about the object of this key.
    pub(crate) fn could_be(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Object(marked) => marked == key,
            Self::Generated { namespace, prefix } => {
                namespace.as_deref() == key.namespace() && key.name().starts_with(&**prefix)
            }
        }
    }

    /// Whether a read could show what became of the write. What a list selects by is not looked at: a write may
    /// have changed it.
    fn concerns(&self, read: Read<'_>) -> bool {
        match read {
            Read::Object(key) => self.could_be(key),
            Read::List(namespace) => is_within(namespace, self.namespace()),
        }
    }
}

/// Whether a list of `listed`, or of all namespaces, could hold an object of `namespace`.
fn is_within(listed: Option<&str>, namespace: Option<&str>) -> bool {
    listed.is_none() || namespace.is_none() || listed == namespace
}

#[cfg(test)]
mod tests;
