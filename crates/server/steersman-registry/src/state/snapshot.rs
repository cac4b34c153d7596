//! Machine: takes a snapshot of a server's whole state, from which another server can start.

mod read;

use std::io;
use std::sync::Arc;

use serde_json::json;
use steersman_auth::{TokenSecret, Tokens};
use steersman_builtins::crd;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use super::pending_work::PendingWork;
use super::recorder::Counters;
use super::registry::Registry;

/// The value of the first field in a snapshot's JSON, by which a server recognises this format.
const FORMAT: &str = "steersman-apiserver/1";

/// All stored objects of a server at one revision, with uid, resource version and managedFields. Taking a snapshot
/// copies no object.
///
/// A snapshot has no past revisions. A server that starts with a snapshot lets watches and lists resume from the
/// snapshot's revision or a later one, and answers 410 for earlier revisions (SRV-SNAP-2).
#[derive(Debug, Clone)]
pub struct Snapshot {
    revision: u64,
    counters: Counters,
    /// The number of the last transaction that the snapshot contains.
    transactions: u64,
    /// The secret key that signs ServiceAccount tokens; `None` in a snapshot of an earlier release without a key.
    key: Option<TokenSecret>,
    tokens: Tokens,
    storages: Vec<(StorageKey, Vec<Arc<Stored>>)>,
}

/// The error of [`Snapshot::read`]: the text is no snapshot, or this server cannot restore a part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The text is not JSON of the right shape, for instance because the file is truncated.
    #[error("the text is no snapshot, or only a part of one")]
    Text(#[from] serde_json::Error),
    /// The `format` field of the text has another value than this server reads.
    #[error("the snapshot has the format {found:?}, but this server reads {FORMAT:?}")]
    Format {
        /// The value of the `format` field in the text, which this server does not know.
        found: String,
    },
    /// A part of the JSON is not as a server writes it.
    #[error("invalid snapshot: {place}: {problem}")]
    Part {
        /// The path of the wrong part in the JSON, for instance `counters.random`.
        place: String,
        /// A description of the problem.
        problem: String,
    },
    /// An object cannot be stored, for instance because it has no name, or a resource version after the snapshot's.
    #[error("invalid snapshot: object {number} (from 0) of {storage}: {problem}")]
    Object {
        /// The storage of the object: `<plural>.<group>`.
        storage: String,
        /// The position of the object in its storage, from 0.
        number: usize,
        /// A description of the problem.
        problem: &'static str,
    },
}

// === impl Snapshot ===

impl Snapshot {
    /// Returns the revision of the store at which the snapshot was taken.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the number of objects in the snapshot.
    pub fn len(&self) -> usize {
        self.storages.iter().map(|(_, objects)| objects.len()).sum()
    }

    /// Returns the number of the last transaction that the snapshot contains.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns whether the snapshot holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the snapshot as JSON, one object per line. The JSON has Secrets, tokens of users, and the key that signs
    /// ServiceAccount tokens in plain text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        let mut counters = json!(self.counters);
        counters["transactions"] = self.transactions.into();
        let key = self.key.as_ref().map(TokenSecret::to_text);
        let key = key.unwrap_or_default();
        let credentials = json!({"key": key, "tokens": self.tokens.to_json()});
        write!(
            out,
            "{{\"format\":{},\"revision\":{},\"counters\":{counters},\"credentials\":{credentials},\"objects\":{{",
            json!(FORMAT),
            self.revision
        )?;
        for (at, (storage, objects)) in self.storages.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}\n{}:[", json!(storage.as_str()))?;
            for (at, object) in objects.iter().enumerate() {
                out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
                out.write_all(object.bytes())?;
            }
            out.write_all(b"]")?;
        }
        out.write_all(b"}}\n")
    }

    /// Parses the output of [`write`](Self::write). Anything that this server cannot keep is an error (SRV-SNAP-4).
    ///
    /// # Errors
    /// [`SnapshotError`] if the text is not a complete snapshot.
    pub fn read(text: &[u8]) -> Result<Self, SnapshotError> {
        read::read(text)
    }
}

// === impl Registry ===

impl Registry {
    /// Takes a snapshot of the current state of the registry.
    pub fn snapshot(&self) -> Snapshot {
        let mut storages: Vec<(StorageKey, Vec<Arc<Stored>>)> = self
            .store
            .storages()
            .map(|storage| {
                let objects = self.store.list(storage, None).cloned();
                (storage.clone(), objects.collect())
            })
            .collect();
        storages.sort_by(|left, right| left.0.cmp(&right.0));
        Snapshot {
            revision: self.store.revision(),
            counters: self.counters(),
            transactions: self.transactions,
            key: Some(self.issuer.secret().clone()),
            tokens: self.tokens.kept(),
            storages,
        }
    }

    /// Replaces the whole state of the registry by the snapshot. The CRDs in the snapshot are served when this returns.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.restore_objects(snapshot);
        self.serve_definitions();
        self.resume_removals();
    }

    /// Replaces the state of the registry by the snapshot, without serving CRDs: a recovery first replays its log.
    pub(super) fn restore_objects(&mut self, snapshot: &Snapshot) {
        // Continues the sequence of uids of the snapshot, so that no uid is assigned twice (SRV-SNAP-1).
        self.set_counters(snapshot.counters);
        // The tokens that the server of the snapshot accepted stay valid: tokens signed with its key, and tokens of
        // `add_token` (SRV-SNAP-3).
        if let Some(key) = &snapshot.key {
            self.issuer.set_secret(key.clone());
        }
        self.tokens = snapshot.tokens.clone();
        self.dependents.clear();
        self.removed.clear();
        self.pending = PendingWork::default();
        // Changes before the snapshot are unknown, so no watch resumes from an earlier revision (SRV-SNAP-2).
        self.forgotten = snapshot.revision;
        self.transactions = snapshot.transactions;
        self.store.restore(snapshot.revision, &snapshot.storages);
        for (storage, objects) in &snapshot.storages {
            for object in objects {
                self.link(storage, object);
            }
            self.touch(storage);
        }
    }

    /// Serves the custom resources of all established CRDs, and records the names of all CRDs as taken.
    pub(super) fn serve_definitions(&mut self) {
        let kind = ("apiextensions.k8s.io", "customresourcedefinitions");
        let all: Vec<Arc<Stored>> = self.objects(kind, None).cloned().collect();
        self.claimed_names.clear();
        for definition in &all {
            let definition = definition.borrowed();
            // The CRD edition begins at the oldest revision from which a watch may resume, so that watches from before
            // the restart can go on.
            self.serve_definition(&definition, self.forgotten, true);
            let is_marked = definition.is_terminating();
            if is_marked && !crd::is_in_cleanup(definition.lean()) {
                let name = Arc::clone(&definition.name);
                self.pending.definitions.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
