//! Machine: collects the changes of one turn of the registry's lock as a transaction for the write-ahead log.

use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_auth::Tokens;
use steersman_schema::resource::StorageKey;
use steersman_store::Change;

use super::recorder::{Counters, Recorder};
use super::registry::Registry;
use crate::requests::metadata;

/// All changes of one turn of the registry's lock, and the counters (of uids, addresses and ports) after it.
///
/// Transactions are numbered without a gap, and each of their changes has the next revision (WAL-2).
#[derive(Debug)]
pub struct Transaction {
    number: u64,
    revision: u64,
    counters: Counters,
    /// The oldest revision from which a watch may resume, if this transaction compacted revisions.
    forgotten: Option<u64>,
    /// All tokens that snapshots contain, if this transaction added or changed a token.
    tokens: Option<Tokens>,
    changes: Vec<(StorageKey, Change)>,
}

/// A transaction that was parsed from the write-ahead log, to be replayed.
#[derive(Debug, Clone)]
pub(super) struct LoggedTransaction {
    pub(super) number: u64,
    pub(super) revision: u64,
    pub(super) counters: Counters,
    pub(super) forgotten: Option<u64>,
    pub(super) tokens: Option<Tokens>,
    pub(super) changes: Vec<LoggedChange>,
}

/// One change in a transaction that was read from the log.
#[derive(Debug, Clone)]
pub(super) struct LoggedChange {
    pub(super) storage: StorageKey,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    /// The object after the change; `None` for a deletion. In an `Arc`, so that clones of a recovery share it.
    pub(super) object: Option<Arc<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionText {
    number: u64,
    revision: u64,
    counters: Counters,
    forgotten: Option<u64>,
    tokens: Option<Map<String, Value>>,
    changes: Vec<ChangeText>,
}

/// The JSON of one change in a transaction: the stored object, or for a deletion the namespace and the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText {
    storage: String,
    object: Option<Value>,
    namespace: Option<String>,
    name: Option<String>,
}

/// The error if a text is not the next transaction of a write-ahead log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The text is not JSON with the fields of a transaction.
    #[error("the text is no transaction")]
    Text(#[from] serde_json::Error),
    /// The number of the transaction is not the previous number plus 1: transactions are missing.
    #[error("transaction {found} follows, but the next one is {expected}")]
    Gap {
        /// The number of the transaction in the text, which is not the expected one.
        found: u64,
        /// The number that the text should have: that of the previous transaction plus 1.
        expected: u64,
    },
    /// The revision of the transaction is not the previous transaction's revision plus the number of changes.
    #[error(
        "transaction {number} ends at revision {found} after {changes} changes, but the revision before it \
         is {before}"
    )]
    Revision {
        /// The number of the transaction.
        number: u64,
        /// The revision in the transaction, which should be that of the store after the transaction.
        found: u64,
        /// The number of changes of the transaction, each of which is one revision.
        changes: usize,
        /// The revision of the store after the previous transaction.
        before: u64,
    },
    /// A part of the transaction is not as a server writes it.
    #[error("transaction {number}: {place}: {problem}")]
    Part {
        /// The number of the transaction.
        number: u64,
        /// The path of the wrong part in the JSON of the transaction.
        place: String,
        /// A description of the problem with this part, for the error message.
        problem: &'static str,
    },
}

// === impl Transaction ===

impl Transaction {
    /// Returns the number of the transaction; transactions are numbered without a gap.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the revision of the store after the transaction.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Writes the transaction as one line of JSON. Objects that are not serialised yet are serialised now
    /// (SRV-STORE-10). The JSON has Secrets and tokens in plain text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        let (number, revision) = (self.number, self.revision);
        let counters = serde_json::to_string(&self.counters)?;
        write!(
            out,
            "{{\"number\":{number},\"revision\":{revision},\"counters\":{counters}"
        )?;
        if let Some(forgotten) = self.forgotten {
            write!(out, ",\"forgotten\":{forgotten}")?;
        }
        if let Some(tokens) = &self.tokens {
            write!(out, ",\"tokens\":{}", tokens.to_json())?;
        }
        out.write_all(b",\"changes\":[")?;
        for (at, (storage, change)) in self.changes.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}{{\"storage\":{}", json!(storage.as_str()))?;
            if change.deleted {
                let (namespace, name) = (json!(&*change.new.namespace), json!(&*change.new.name));
                write!(out, ",\"namespace\":{namespace},\"name\":{name}}}")?;
            } else {
                out.write_all(b",\"object\":")?;
                out.write_all(change.new.bytes())?;
                out.write_all(b"}")?;
            }
        }
        out.write_all(b"]}\n")
    }
}

// === impl LoggedTransaction ===

impl LoggedTransaction {
    /// Parses the output of [`Transaction::write`]; an unknown field or a wrong value is an error.
    pub(super) fn read(text: &[u8]) -> Result<Self, TransactionError> {
        let text: TransactionText = serde_json::from_slice(text)?;
        let (number, revision) = (text.number, text.revision);
        let wrong = |place: String, problem| TransactionError::Part {
            number,
            place,
            problem,
        };
        let tokens = text.tokens.as_ref().map(Tokens::from_json).transpose();
        let tokens = tokens.map_err(|(at, why)| wrong(format!("token {at} (from 0)"), why))?;
        let count = u64::try_from(text.changes.len()).unwrap_or(u64::MAX);
        let first = revision.saturating_sub(count).saturating_add(1);
        let changes = text.changes.into_iter().zip(first..).enumerate();
        let changes = changes.map(|(at, (change, revision))| {
            let place = format!("change {at} (from 0) of {}", change.storage);
            LoggedChange::of(change, revision).map_err(|why| wrong(place, why))
        });
        Ok(Self {
            number,
            revision,
            counters: text.counters,
            forgotten: text.forgotten,
            tokens,
            changes: changes.collect::<Result<_, _>>()?,
        })
    }
}

impl LoggedChange {
    fn of(change: ChangeText, revision: u64) -> Result<Self, &'static str> {
        let storage = StorageKey::parse(&change.storage);
        let (namespace, name) = match (&change.object, &change.namespace, &change.name) {
            (Some(object), None, None) => {
                let member = |field: &str| metadata::text(object, field);
                if member("resourceVersion") != revision.to_string() {
                    return Err("its resource version is not the revision of the change");
                }
                (member("namespace"), member("name"))
            }
            (None, Some(namespace), Some(name)) => (namespace.as_str(), name.as_str()),
            _ => return Err("it has neither an object alone nor the namespace and name of one"),
        };
        if name.is_empty() {
            return Err("the object has no name");
        }
        Ok(Self {
            storage,
            namespace: namespace.into(),
            name: name.into(),
            object: change.object.map(Arc::new),
        })
    }
}

// === impl Registry ===

impl Registry {
    /// Begins to record changes for a write-ahead log, which [`take_transaction`](Self::take_transaction) returns.
    pub fn record_transactions(&mut self) {
        self.recorder = Some(Recorder {
            counters: self.counters(),
            forgotten: self.forgotten,
            has_new_token: false,
        });
        self.store.record_changes();
    }

    /// Returns the changes since the last call as a transaction; `None` if nothing has changed, or without
    /// [`record_transactions`](Self::record_transactions). Call this at the end of every turn of the lock.
    pub fn take_transaction(&mut self) -> Option<Transaction> {
        let counters = self.counters();
        let recorder = self.recorder.as_mut()?;
        let changes = self.store.take_changes();
        let is_same = counters == recorder.counters && self.forgotten == recorder.forgotten;
        if changes.is_empty() && is_same && !recorder.has_new_token {
            return None;
        }
        let has_new_token = std::mem::take(&mut recorder.has_new_token);
        let forgotten = (self.forgotten != recorder.forgotten).then_some(self.forgotten);
        recorder.counters = counters;
        recorder.forgotten = self.forgotten;
        self.transactions += 1;
        Some(Transaction {
            number: self.transactions,
            revision: self.store.revision(),
            counters,
            forgotten,
            tokens: has_new_token.then(|| self.tokens.kept()),
            changes,
        })
    }

    /// Hides revisions after `revision` from watches until the next call (WAL-1). Before the first call, watches see
    /// all revisions.
    pub fn show_until(&mut self, revision: u64) {
        self.visible = revision;
    }

    pub(crate) fn visible_revision(&self) -> u64 {
        self.store.revision().min(self.visible)
    }
}
