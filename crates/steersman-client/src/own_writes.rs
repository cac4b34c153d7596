//! Machine: remembers what was written, and says what a read has to see before it is answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

/// How many notes may be there before those that were seen are looked for, at least.
const SWEEP_AT_LEAST: usize = 256;
/// How long it is kept that nobody knows what became of a write. Whatever became of it was over within
/// the minute that a server gives a request, and an informer that follows the server has seen it long
/// before this.
const UNKNOWN_FOR: Duration = Duration::from_secs(3600);

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
    /// Nobody knows whether the server did it. Without a name where the server was to make one.
    Unknown {
        namespace: Option<String>,
        name: Option<String>,
    },
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    Object(&'a ObjectKey),
    /// The objects of a namespace, or of all.
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

/// A write that a read has to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) key: ObjectKey,
    uid: String,
    /// The newest version that the server stored, where one is known.
    version: Option<ResourceVersion>,
    /// Whether it was deleted after that.
    deleted: bool,
    /// Whether a read has waited for it as long as one may.
    late: bool,
    serial: u64,
    writer: Writer,
}

/// What stands between a read and the cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    /// Each has to be seen by the informer that covers it.
    pub(crate) notes: Vec<Note>,
    /// Writes whose outcome nobody knows: this read, and no later one, asks the server (RYOW-3).
    pub(crate) unknown: Vec<Unknown>,
}

/// Everything that was written through one client and not seen since (RYOW-1).
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    of: HashMap<(Writer, Gvk), Notes>,
    len: usize,
    sweep_at: usize,
    serial: u64,
}

#[derive(Debug, Default)]
struct Notes {
    /// One for each key: a newer write makes the older one part of its past.
    seen: HashMap<ObjectKey, Note>,
    unknown: Vec<Unknown>,
}

/// A write whose outcome nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) namespace: Option<String>,
    /// None where the server was to make the name.
    pub(crate) name: Option<String>,
    since: Instant,
}

impl OwnWrites {
    /// Notes a write that is finished.
    pub(crate) fn note(&mut self, writer: Writer, gvk: &Gvk, written: Written, now: Instant) {
        self.serial += 1;
        let serial = self.serial;
        // A version that cannot be compared could be waited for in vain.
        if let Written::Stored { version, .. } = &written
            && version.compare(version).is_none()
        {
            return;
        }
        let notes = self.of.entry((writer, gvk.clone())).or_default();
        let (key, uid, version) = match written {
            Written::Stored { key, uid, version } => (key, uid, Some(version)),
            Written::Deleted { key, uid } => (key, uid, None),
            Written::Unknown { namespace, name } => {
                let since = now;
                let unknown = Unknown {
                    namespace,
                    name,
                    since,
                };
                match notes.unknown.iter_mut().find(|u| u.is_of(&unknown)) {
                    Some(known) => known.since = since,
                    None => {
                        notes.unknown.push(unknown);
                        self.len += 1;
                    }
                }
                return;
            }
        };
        let deleted = version.is_none();
        // What was stored before a delete has to be seen too: an object that never appeared is not gone.
        let before = notes.seen.get(&key).filter(|note| note.uid == uid);
        let version = version.or_else(|| before.and_then(|note| note.version.clone()));
        let note = Note {
            key: key.clone(),
            uid,
            version,
            deleted,
            late: false,
            serial,
            writer,
        };
        if notes.seen.insert(key, note).is_none() {
            self.len += 1;
        }
    }

    /// What a read on behalf of `writer` has to wait for; of everybody's writes where it is none.
    pub(crate) fn owed(&mut self, writer: Option<Writer>, gvk: &Gvk, read: Read<'_>) -> Owed {
        let mut owed = Owed::default();
        match writer {
            Some(writer) => {
                if let Entry::Occupied(mut notes) = self.of.entry((writer, gvk.clone())) {
                    notes.get_mut().owe(read, &mut owed);
                    if notes.get().is_empty() {
                        notes.remove();
                    }
                }
            }
            None => self.of.retain(|(_, of), notes| {
                if of == gvk {
                    notes.owe(read, &mut owed);
                }
                !notes.is_empty()
            }),
        }
        self.len -= owed.unknown.len();
        owed
    }

    /// A read has waited for a note as long as one may, and no later one waits for it again (RYOW-5).
    pub(crate) fn late(&mut self, gvk: &Gvk, note: &Note) {
        let notes = self.of.get_mut(&(note.writer, gvk.clone()));
        let known = notes.and_then(|notes| notes.seen.get_mut(&note.key));
        if let Some(known) = known.filter(|known| known.serial == note.serial) {
            known.late = true;
        }
    }

    /// Drops a note that was seen; not a newer one of the same object.
    pub(crate) fn seen(&mut self, gvk: &Gvk, note: &Note) {
        let of = (note.writer, gvk.clone());
        let Some(notes) = self.of.get_mut(&of) else {
            return;
        };
        if notes
            .seen
            .get(&note.key)
            .is_some_and(|known| known.serial == note.serial)
        {
            notes.seen.remove(&note.key);
            self.len -= 1;
            if notes.is_empty() {
                self.of.remove(&of);
            }
        }
    }

    /// Drops what was seen by now of keys that never read again, and what nobody ever asked about, once
    /// there is enough of it to be worth the look. `is_seen` asks the informer that covers the object, and
    /// `follows` whether one that covers the name follows the server; both are true where there is none.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        mut is_seen: impl FnMut(&Gvk, &Note) -> bool,
        mut follows: impl FnMut(&Gvk, &Unknown) -> bool,
    ) {
        if self.len < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        self.of.retain(|(_, gvk), notes| {
            notes.seen.retain(|_, note| !is_seen(gvk, note));
            notes.unknown.retain(|unknown| {
                let age = now.saturating_duration_since(unknown.since);
                age < UNKNOWN_FOR || !follows(gvk, unknown)
            });
            !notes.is_empty()
        });
        self.len = self.of.values().map(Notes::len).sum();
        // What stays is waited for, or soon seen: the next look comes when there is twice as much.
        self.sweep_at = self.len * 2;
    }

    /// How many writes were not seen yet.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Notes {
    fn owe(&mut self, read: Read<'_>, owed: &mut Owed) {
        match read {
            Read::Object(key) => owed.notes.extend(self.seen.get(key).cloned()),
            Read::List(namespace) => {
                let within = |note: &&Note| is_within(namespace, note.key.namespace());
                owed.notes
                    .extend(self.seen.values().filter(within).cloned());
            }
        }
        self.unknown.retain(|unknown| {
            let concerns = unknown.concerns(read);
            if concerns {
                owed.unknown.push(unknown.clone());
            }
            !concerns
        });
    }

    fn len(&self) -> usize {
        self.seen.len() + self.unknown.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Note {
    /// Whether a read has waited for it as long as one may.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Whether an informer has seen the write (RYOW-2).
    pub(crate) fn is_seen(&self, look: Look<'_>) -> bool {
        let has_come = self.version.as_ref().is_none_or(|version| {
            look.applied.is_at_least(version)
                || look
                    .stored
                    .is_some_and(|stored| stored.version.is_at_least(version))
        });
        // Another object that has the name since is as good as none; one that had it before is older than
        // what was written, and so it has not come.
        let is_gone = |stored: Stored<'_>| stored.is_deleting || stored.uid != self.uid;
        has_come && (!self.deleted || look.stored.is_none_or(is_gone))
    }
}

impl Unknown {
    fn is_of(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    fn concerns(&self, read: Read<'_>) -> bool {
        match (read, &self.name) {
            (Read::Object(key), name) => {
                name.as_deref().is_none_or(|name| name == key.name())
                    && self.namespace.as_deref() == key.namespace()
            }
            (Read::List(namespace), _) => is_within(namespace, self.namespace.as_deref()),
        }
    }
}

/// Whether a list of `listed`, or of all namespaces, could hold an object of `namespace`.
fn is_within(listed: Option<&str>, namespace: Option<&str>) -> bool {
    listed.is_none() || namespace.is_none() || listed == namespace
}

#[cfg(test)]
mod tests;
