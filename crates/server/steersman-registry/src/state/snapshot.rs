//! Machine: a snapshot of a server's whole state, from which another server can start.

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

/// The first member of the JSON, which distinguishes this format from later formats.
const FORMAT: &str = "steersman-apiserver/1";

/// All objects at one revision, as they are stored: with uid, resource version and managedFields. Taking a snapshot
/// copies no object.
///
/// Past revisions are not part of a snapshot. A server that starts from a snapshot resumes watches and lists from its
/// revision on, and answers 410 for earlier revisions (SRV-SNAP-2).
#[derive(Debug, Clone)]
pub struct Snapshot {
    revision: u64,
    counters: Counters,
    /// The number of the last transaction that the snapshot includes.
    transactions: u64,
    /// The secret of the key that signs tokens of ServiceAccounts; absent in snapshots of earlier releases.
    key: Option<TokenSecret>,
    tokens: Tokens,
    storages: Vec<(StorageKey, Vec<Arc<Stored>>)>,
}

/// The reason why a text is no snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The text is not JSON of the right shape, for instance because the file is truncated.
    #[error("the text is no snapshot, or only a part of one")]
    Text(#[from] serde_json::Error),
    /// The text has an unknown format.
    #[error("the snapshot has the format {found:?}, but this server reads {FORMAT:?}")]
    Format {
        /// The format that the text declares.
        found: String,
    },
    /// A part of the text is not in the form that a server writes.
    #[error("invalid snapshot: {place}: {problem}")]
    Part {
        /// The path in the JSON, for instance `counters.random`.
        place: String,
        /// A description of the problem.
        problem: String,
    },
    /// An object of the snapshot cannot be stored, for instance because it has no name or a too new resource version.
    #[error("invalid snapshot: object {number} (from 0) of {storage}: {problem}")]
    Object {
        /// The storage of the object: the plural name and the group, separated by a dot.
        storage: String,
        /// The position of the object in its storage, from 0.
        number: usize,
        /// A description of the problem.
        problem: &'static str,
    },
}

// === impl Snapshot ===

impl Snapshot {
    /// Returns the revision at which the snapshot was taken.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the number of objects in the snapshot.
    pub fn len(&self) -> usize {
        self.storages.iter().map(|(_, objects)| objects.len()).sum()
    }

    /// Returns the number of the last transaction that the snapshot includes.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns whether the snapshot holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the snapshot as JSON, one object per line. Secrets, the tokens of users and the key that signs
    /// ServiceAccount tokens are in plain text.
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

    /// Parses the output of [`write`](Self::write). Any content that cannot be stored is an error (SRV-SNAP-4).
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
        let stored = |storage: &StorageKey| {
            let objects = self.store.list(storage, None).cloned();
            (storage.clone(), objects.collect::<Vec<_>>())
        };
        let mut storages: Vec<_> = self.store.storages().map(stored).collect();
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

    /// Replaces the whole state of the registry by that of the snapshot. The CRDs in it are served when this returns.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.restore_objects(snapshot);
        self.serve_definitions();
        self.resume_removals();
    }

    /// Replaces the state of the registry by that of the snapshot, without serving its CRDs.
    pub(super) fn restore_objects(&mut self, snapshot: &Snapshot) {
        // SRV-SNAP-1: generated uids continue the sequence, so that no uid is assigned twice.
        self.set_counters(snapshot.counters);
        // SRV-SNAP-3: tokens that the other server accepted stay valid.
        if let Some(key) = &snapshot.key {
            self.issuer.set_secret(key.clone());
        }
        self.tokens = snapshot.tokens.clone();
        self.dependents.clear();
        self.removed.clear();
        self.pending = PendingWork::default();
        // SRV-SNAP-2: changes before the snapshot are unknown, so no watch resumes from an earlier revision.
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

    /// Serves the resources of all established CRDs, and records the names of all CRDs.
    pub(super) fn serve_definitions(&mut self) {
        let kind = ("apiextensions.k8s.io", "customresourcedefinitions");
        let all: Vec<Arc<Stored>> = self.objects(kind, None).cloned().collect();
        self.claimed_names.clear();
        for definition in &all {
            let definition = definition.borrowed();
            self.serve_restored(&definition);
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
