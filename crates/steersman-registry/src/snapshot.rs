//! Machine: everything a server holds as one value, to be written down and begun from.

mod read;

use std::io;
use std::sync::Arc;

use serde_json::json;
use steersman_kinds::crd;
use steersman_schema::resource::StorageKey;

use crate::auth::{Key, Tokens};
use crate::store::Stored;

use super::due::Due;
use super::rng::Rng;
use super::state::Registry;

/// The first member of the text, by which a later format is told from this one.
const FORMAT: &str = "steersman-apiserver/1";

/// Every object at one revision, as it is stored: with its uid, its resource version and its
/// managedFields. Taking one copies no object.
///
/// The past is not part of it. A server that begins from a snapshot resumes watches and lists from
/// its revision on, and answers 410 for those before (SRV-SNAP-2).
#[derive(Debug, Clone)]
pub struct Snapshot {
    revision: u64,
    random: u64,
    addresses: u16,
    node_ports: i64,
    /// What tokens of ServiceAccounts are signed with; none in texts of earlier servers.
    key: Option<Key>,
    tokens: Tokens,
    storages: Vec<(StorageKey, Vec<Arc<Stored>>)>,
}

/// Why a text is no snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is no JSON of the right shape; a file that was cut short, for instance.
    #[error("it is no snapshot, or not all of one")]
    Text(#[from] serde_json::Error),
    /// It was written in another format.
    #[error("its format is {found:?}, and this server reads {FORMAT:?}")]
    Format {
        /// What it says.
        found: String,
    },
    /// A part of it is not what a server writes. Parts are named by their place in the JSON.
    #[error("its {place} cannot be read: {problem}")]
    Part {
        /// The place, for instance `counters.random`.
        place: String,
        /// The problem with the part.
        problem: String,
    },
    /// An object in it could not be kept as it stands there: it has no name, or no resource version
    /// up to the snapshot's own, for instance.
    #[error("the object {number} of {storage} is none: {problem}")]
    Object {
        /// The kind.
        storage: String,
        /// Which one, from 0.
        number: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

// === impl Snapshot ===

impl Snapshot {
    /// The revision at which it was taken.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many objects it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.storages.iter().map(|(_, objects)| objects.len()).sum()
    }

    /// Whether it holds no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes it as JSON, an object a line. The Secrets in it are as readable as the rest, and so are
    /// the tokens of users and the key that signs those of ServiceAccounts.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        let counters = json!({
            "random": self.random, "addresses": self.addresses, "node_ports": self.node_ports,
        });
        let key = self.key.as_ref().map(Key::to_text).unwrap_or_default();
        let credentials = json!({"key": key, "tokens": self.tokens.to_json()});
        write!(
            out,
            "{{\"format\":{},\"revision\":{},\"counters\":{counters},\"credentials\":{credentials},\"objects\":{{",
            json!(FORMAT),
            self.revision
        )?;
        let mut first = true;
        for (storage, objects) in &self.storages {
            let comma = if first { "" } else { "," };
            first = false;
            write!(out, "{comma}\n{}:[", json!(storage.as_str()))?;
            for (at, object) in objects.iter().enumerate() {
                out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
                out.write_all(&object.bytes)?;
            }
            out.write_all(b"]")?;
        }
        out.write_all(b"}}\n")
    }

    /// Reads what [`write`](Self::write) wrote. Nothing is passed over: whatever in the text could
    /// not be kept is an error that names its place (SRV-SNAP-4).
    ///
    /// # Errors
    /// [`SnapshotError`] where the text is not all of a snapshot.
    pub fn read(text: &[u8]) -> Result<Self, SnapshotError> {
        read::read(text)
    }
}

// === impl Registry ===

impl Registry {
    /// Everything as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut storages: Vec<(StorageKey, Vec<Arc<Stored>>)> = self
            .store
            .storages()
            .map(|storage| {
                let objects = self.store.list(storage, None).map(Arc::clone);
                (storage.clone(), objects.collect())
            })
            .collect();
        storages.sort_by(|left, right| left.0.cmp(&right.0));
        Snapshot {
            revision: self.store.revision(),
            random: self.rng.state(),
            addresses: self.last_address,
            node_ports: self.last_node_port,
            key: Some(self.key.clone()),
            tokens: self.tokens.kept(),
            storages,
        }
    }

    /// Becomes what the snapshot holds, whatever it held before. The definitions in it are served
    /// when this returns.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        // SRV-SNAP-1: uids go on where they were, or two objects of two runs would share one.
        self.rng = Rng::new(snapshot.random);
        self.last_address = snapshot.addresses;
        self.last_node_port = snapshot.node_ports;
        // SRV-SNAP-3: who was let in before is let in again.
        if let Some(key) = &snapshot.key {
            self.key = key.clone();
        }
        self.tokens = snapshot.tokens.clone();
        self.dependents.clear();
        self.removed.clear();
        self.due = Due::default();
        // SRV-SNAP-2: what happened before is not known here, so nothing resumes from there.
        self.forgotten = snapshot.revision;
        self.store.restore(snapshot.revision, &snapshot.storages);
        for (storage, objects) in &snapshot.storages {
            for object in objects {
                self.link(storage, object);
            }
            self.touch(storage);
        }
        let definitions = StorageKey::new("apiextensions.k8s.io", "customresourcedefinitions");
        let all: Vec<Arc<Stored>> = self.store.list(&definitions, None).cloned().collect();
        for definition in all.iter().filter(|one| crd::is_established(&one.value)) {
            self.serve_again(&definition.value);
        }
    }
}

#[cfg(test)]
mod tests;
