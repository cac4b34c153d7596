//! Machine: remembers the writes that the cache has not seen, and decides which of them a read must see.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

mod filter;
mod kept_answer;
mod question;
mod note;

pub(crate) use filter::Filter;
pub(crate) use kept_answer::{AnswerBudget, KeptAnswer};
pub(crate) use note::Note;
pub(crate) use question::{Question, UncertainObject};

/// The number of remembered writes from which on seen writes are forgotten before [`SWEEP_AFTER`].
const SWEEP_AT_LEAST: usize = 256;
/// The time after which writes that the cache has seen are forgotten, even if few writes are remembered. Each new write
/// checks whether the time is over.
const SWEEP_AFTER: Duration = Duration::from_secs(600);

/// Identifies the request key (of one controller) that writes and reads, as a hash. If two keys have the same hash,
/// their reads also wait for each other's writes, which only costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WriterHash(pub(crate) u64);

/// The result of a write: what the cache must show to later reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotedWrite {
    /// The server stored the object at this version, and the cache will hold it at this version.
    Stored {
        key: ObjectKey,
        uid: String,
        version: ResourceVersion,
        /// The object in the server's answer; `None` if the cache will not hold exactly this object.
        answer: Option<KeptAnswer>,
    },
    /// The server deleted the object.
    Deleted {
        key: ObjectKey,
        uid: String,
        /// A resource version at which the object existed; `None` if no such version is known.
        at: Option<ResourceVersion>,
        /// Whether the cache held the object when the delete was sent. If so, the object does not appear in the cache
        /// after its removal (RYOW-9).
        was_stored: bool,
        /// Whether the deleted object had neither finalizers nor a grace period. If so, a terminating object in the
        /// cache is an older state of it (RYOW-2).
        is_final: bool,
    },
    /// At this version the cache has no object of this key, because the object is absent on the server (RYOW-7), or
    /// because a selector of the cache excludes it (RYOW-8).
    Absent { key: ObjectKey, at: ResourceVersion },
    /// The server stored the object at this version, and it is unknown whether the cache's selectors include it
    /// (RYOW-8).
    Unconfirmed {
        key: ObjectKey,
        version: ResourceVersion,
    },
    /// It is unknown whether the server executed the write.
    Unknown(UncertainObject),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    Object(&'a ObjectKey),
    /// A list of the objects of one namespace, or of all namespaces (`None`). The selectors of the list are not
    /// considered, because a write may have changed whether they select its object.
    List(Option<&'a str>),
}

/// The writes of one client that the cache has not seen, so that later reads can wait for them (RYOW-1).
#[derive(Debug, Default)]
pub(crate) struct UnseenWrites {
    of: HashMap<Gvk, HashMap<WriterHash, Notes>>,
    filter: Arc<Filter>,
    sweep_at: usize,
    swept: Option<Instant>,
    serial: u64,
}

#[derive(Debug, Default)]
struct Notes {
    /// The writes with a known result, one [`Note`] for each object: the note of a newer write also covers the older
    /// writes of the object.
    unseen: HashMap<ObjectKey, Note>,
    questions: Vec<Question>,
}

impl<'a> Read<'a> {
    /// Returns the name of the object that is read; `None` for a list.
    pub(crate) fn name(self) -> Option<&'a str> {
        match self {
            Self::Object(key) => Some(key.name()),
            Self::List(_) => None,
        }
    }
}

impl UnseenWrites {
    /// Returns the filter. Most reads find out by it, without a lock, that they have no write to wait for.
    pub(crate) fn filter(&self) -> Arc<Filter> {
        Arc::clone(&self.filter)
    }

    pub(crate) fn handle_write(
        &mut self,
        writer: WriterHash,
        gvk: &Gvk,
        written: NotedWrite,
        now: Instant,
    ) {
        self.serial += 1;
        self.swept.get_or_insert(now);
        let serial = self.serial;
        let note = |key: &ObjectKey, uid: Option<String>| Note {
            key: key.clone(),
            uid,
            version: None,
            deleted: false,
            is_final: false,
            absent: None,
            answer: None,
            awaited: None,
            serial,
            writer,
        };
        let question = |subject, version| Question {
            subject,
            writer,
            version,
            since: now,
            serial,
        };
        let known = |key: &ObjectKey| self.of.get(gvk)?.get(&writer)?.unseen.get(key);
        let new = match written {
            // RYOW-4: a write at a version that cannot be compared is not remembered, because no read could find out
            // whether the cache has seen it.
            NotedWrite::Stored { version, .. }
            | NotedWrite::Absent { at: version, .. }
            | NotedWrite::Unconfirmed { version, .. }
                if version.compare(&version).is_none() =>
            {
                None
            }
            NotedWrite::Stored {
                key,
                uid,
                version,
                answer,
            } => {
                let new = Note {
                    version: Some(version),
                    answer,
                    ..note(&key, Some(uid))
                };
                new.after(known(&key))
            }
            NotedWrite::Deleted {
                key,
                uid,
                at,
                was_stored,
                is_final,
            } => {
                let at = at.filter(|at| at.compare(at).is_some());
                let is_dated = was_stored || at.is_some();
                let mut new = note(&key, Some(uid)).gone(known(&key), at);
                new.is_final |= is_final;
                // RYOW-9: if no version of the object is known, no event of the cache shows that the object can no
                // longer appear. So the server must be asked about the object.
                if !is_dated && new.version.is_none() {
                    return self.question(gvk, question(UncertainObject::Object(key), None));
                }
                Some(new)
            }
            NotedWrite::Absent { key, at } => note(&key, None).absent(known(&key), at),
            NotedWrite::Unconfirmed { key, version } => {
                return self.question(gvk, question(UncertainObject::Object(key), Some(version)));
            }
            NotedWrite::Unknown(subject) => return self.question(gvk, question(subject, None)),
        };
        if let Some(new) = new {
            self.put(gvk, new);
        }
    }

    fn put(&mut self, gvk: &Gvk, note: Note) {
        let (writer, key) = (note.writer, note.key.clone());
        let notes = self.of.entry(gvk.clone()).or_default();
        let notes = notes.entry(writer).or_default();
        // A write with a known result settles the questions about its object at the same or an earlier version: once
        // the cache has seen this write, it also shows the results of those writes.
        let newest = note.version.iter().chain(&note.absent);
        let newest: Vec<ResourceVersion> = newest.cloned().collect();
        notes.questions.retain(|question| {
            let is_past = |version| newest.iter().any(|new| new.is_at_least(version));
            let is_over = matches!(&question.subject, UncertainObject::Object(subject) if *subject == key)
                && question.version.as_ref().is_some_and(is_past);
            if is_over {
                self.filter.remove(writer, question.subject.name());
            }
            !is_over
        });
        if notes.unseen.insert(key.clone(), note).is_none() {
            self.filter.add(writer, Some(key.name()));
        }
    }

    fn question(&mut self, gvk: &Gvk, question: Question) {
        let notes = self.of.entry(gvk.clone()).or_default();
        let notes = notes.entry(question.writer).or_default();
        let mut questions = notes.questions.iter_mut();
        match questions.find(|known| known.subject == question.subject) {
            Some(known) => *known = question.joined(known),
            None => {
                self.filter.add(question.writer, question.subject.name());
                notes.questions.push(question);
            }
        }
    }

    /// Returns whether a read for `writer` (`None`: all writers) must wait for a write or ask the server about a write.
    pub(crate) fn owes(&self, writer: Option<WriterHash>, gvk: &Gvk, read: Read<'_>) -> bool {
        let mut notes = self.notes(writer, gvk);
        notes.any(|notes| {
            let is_noted = match read {
                Read::Object(key) => notes.unseen.contains_key(key),
                Read::List(namespace) => {
                    let mut keys = notes.unseen.keys();
                    keys.any(|key| is_within(namespace, key.namespace()))
                }
            };
            is_noted
                || notes
                    .questions
                    .iter()
                    .any(|question| question.subject.concerns(read))
        })
    }

    /// Returns the known writes (notes) that a read for `writer`, or for all writers (`None`), must wait for.
    pub(crate) fn owed(&self, writer: Option<WriterHash>, gvk: &Gvk, read: Read<'_>) -> Vec<Note> {
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

    /// Returns the writes with an unknown result (questions) that a read for `writer`, or for all writers (`None`),
    /// could show. The server must be asked about these writes before the read (RYOW-3).
    pub(crate) fn questions(
        &self,
        writer: Option<WriterHash>,
        gvk: &Gvk,
        read: Read<'_>,
    ) -> Vec<Question> {
        let questions = self.notes(writer, gvk).flat_map(|notes| &notes.questions);
        let concerned = questions.filter(|question| question.subject.concerns(read));
        concerned.cloned().collect()
    }

    /// Starts the time limit of the wait for these writes at `now`, unless an earlier read started it: the limit holds
    /// for all reads together, and not for each read (RYOW-5).
    pub(crate) fn await_all(&mut self, gvk: &Gvk, notes: &mut [Note], now: Instant) {
        for note in notes {
            let of = self.of.get_mut(gvk);
            let of = of.and_then(|of| of.get_mut(&note.writer));
            let known = of.and_then(|notes| notes.unseen.get_mut(&note.key));
            let known = known.filter(|known| known.serial == note.serial);
            note.awaited = Some(match known {
                Some(known) => *known.awaited.get_or_insert(now),
                None => note.awaited.unwrap_or(now),
            });
        }
    }

    /// Forgets a write (note) that the cache has seen, unless a newer write of the same object has replaced it.
    pub(crate) fn handle_seen(&mut self, gvk: &Gvk, note: &Note) {
        self.drop_from(note.writer, gvk, |notes, filter| {
            let known = notes.unseen.get(&note.key);
            if known.is_some_and(|known| known.serial == note.serial) {
                notes.unseen.remove(&note.key);
                filter.remove(note.writer, Some(note.key.name()));
            }
        });
    }

    /// Forgets a write with an unknown result (question) after the server was asked about it, unless a newer question
    /// about the same object has replaced it.
    pub(crate) fn handle_answer(&mut self, gvk: &Gvk, question: &Question) {
        self.drop_from(question.writer, gvk, |notes, filter| {
            let questions = &mut notes.questions;
            let before = questions.len();
            questions.retain(|known| known.serial != question.serial);
            if questions.len() < before {
                filter.remove(question.writer, question.subject.name());
            }
        });
    }

    /// Drops the known writes (notes) that the cache has seen, and the writes with an unknown result (questions) about
    /// which the server need not be asked any more. Unless `always` is set, does nothing until the number of remembered
    /// writes has doubled since the last sweep (and is at least [`SWEEP_AT_LEAST`]), or [`SWEEP_AFTER`] has passed.
    ///
    /// The closures ask the informer that covers the object: `is_seen` whether it has seen the write of a note,
    /// `is_passed` whether it has passed the version of a question, and `follows` whether it follows the server. The
    /// closures return true if no informer covers the object.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        always: bool,
        mut is_seen: impl FnMut(&Gvk, &Note) -> bool,
        mut is_passed: impl FnMut(&Gvk, &Question) -> bool,
        mut follows: impl FnMut(&Gvk, &Question) -> bool,
    ) {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= SWEEP_AFTER;
        let is_much = self.len() >= self.sweep_at.max(SWEEP_AT_LEAST);
        if !always && !is_much && !self.swept.is_some_and(is_old) {
            return;
        }
        self.of.retain(|gvk, writers| {
            writers.retain(|writer, notes| {
                notes.unseen.retain(|key, note| {
                    let stays = !is_seen(gvk, note);
                    if !stays {
                        self.filter.remove(*writer, Some(key.name()));
                    }
                    stays
                });
                notes.questions.retain(|question| {
                    let is_over =
                        is_passed(gvk, question) || question.is_old(now) && follows(gvk, question);
                    if is_over {
                        self.filter.remove(*writer, question.subject.name());
                    }
                    !is_over
                });
                !notes.is_empty()
            });
            writers.shrink_to(writers.len() * 2);
            !writers.is_empty()
        });
        // The next sweep runs when the number of remaining writes has doubled.
        self.sweep_at = self.len() * 2;
        self.swept = Some(now);
    }

    pub(crate) fn len(&self) -> usize {
        self.filter.len()
    }

    /// Returns the remembered writes of a kind by one writer, or by all writers (`None`).
    fn notes(&self, writer: Option<WriterHash>, gvk: &Gvk) -> impl Iterator<Item = &Notes> {
        let of_kind = self.of.get(gvk);
        let (one, all) = match writer {
            Some(writer) => (of_kind.and_then(|of| of.get(&writer)), None),
            None => (None, of_kind.map(HashMap::values)),
        };
        one.into_iter().chain(all.into_iter().flatten())
    }

    fn drop_from(&mut self, writer: WriterHash, gvk: &Gvk, drop: impl FnOnce(&mut Notes, &Filter)) {
        let Some(writers) = self.of.get_mut(gvk) else {
            return;
        };
        if let Some(notes) = writers.get_mut(&writer) {
            drop(notes, &self.filter);
            if notes.is_empty() {
                writers.remove(&writer);
            }
        }
        if writers.is_empty() {
            self.of.remove(gvk);
        }
    }
}

impl Notes {
    fn is_empty(&self) -> bool {
        self.unseen.is_empty() && self.questions.is_empty()
    }
}

/// Returns whether a list of the namespace `listed`, or of all namespaces (`None`), could hold an object of
/// `namespace`; `namespace` is `None` for a cluster-scoped object.
fn is_within(listed: Option<&str>, namespace: Option<&str>) -> bool {
    listed.is_none() || namespace.is_none() || listed == namespace
}

#[cfg(test)]
mod tests;
