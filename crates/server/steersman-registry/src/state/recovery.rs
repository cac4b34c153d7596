//! Machine: a recovery: the snapshot and the logged transactions after it, with which a server starts.

use serde_json::Value;

use super::registry::Registry;
use super::snapshot::Snapshot;
use super::transaction::{LoggedTransaction, TransactionError};

/// A snapshot and the transactions in the log after it.
///
/// A server that starts with it has the state after the last transaction. Watches can resume from the snapshot's
/// revision on (WAL-3: nothing that was acknowledged is lost).
#[derive(Debug, Clone)]
pub struct Recovery {
    snapshot: Snapshot,
    later: Vec<LoggedTransaction>,
}

impl From<Snapshot> for Recovery {
    fn from(snapshot: Snapshot) -> Self {
        let later = Vec::new();
        Self { snapshot, later }
    }
}

impl Recovery {
    /// Adds the next transaction, from its text in the log. One that the snapshot already contains is ignored.
    ///
    /// # Errors
    /// Fails for text that is not the next transaction: a log with missing transactions is never replayed (WAL-2).
    pub fn add(&mut self, text: &[u8]) -> Result<(), TransactionError> {
        let next = LoggedTransaction::read(text)?;
        if next.number <= self.snapshot.transactions() {
            return Ok(());
        }
        let expected = self.transactions() + 1;
        if next.number != expected {
            return Err(TransactionError::Gap {
                found: next.number,
                expected,
            });
        }
        let changes = next.changes.len();
        let count = u64::try_from(changes).unwrap_or(u64::MAX);
        let end = self.revision().checked_add(count);

        if end != Some(next.revision) {
            return Err(TransactionError::Revision {
                number: next.number,
                found: next.revision,
                changes,
                before: self.revision(),
            });
        }
        self.later.push(next);
        Ok(())
    }

    /// Returns the revision of the store after the last transaction.
    pub fn revision(&self) -> u64 {
        let last = self.later.last();
        last.map_or(self.snapshot.revision(), |last| last.revision)
    }

    /// Returns the number of the last transaction; the next one in the log has this number plus 1.
    pub fn transactions(&self) -> u64 {
        let last = self.later.last();
        last.map_or(self.snapshot.transactions(), |last| last.number)
    }

    /// Returns how many transactions come after the snapshot.
    pub fn replayed(&self) -> usize {
        self.later.len()
    }
}

impl Registry {
    /// Replaces the whole state of the registry by this one. The CRDs in it are served when this returns.
    pub fn recover(&mut self, recovery: &Recovery) {
        self.restore_objects(&recovery.snapshot);
        for transaction in &recovery.later {
            self.replay(transaction);
        }
        self.store.take_after_writes().finish();
        self.serve_definitions();
        self.resume_removals();
    }

    /// Makes the changes of a transaction again. No controller acts, because the log has their changes, too.
    fn replay(&mut self, transaction: &LoggedTransaction) {
        for change in &transaction.changes {
            let (storage, namespace, name) = (&change.storage, &change.namespace, &change.name);
            if let Some(old) = self.store.get(storage, namespace, name).cloned() {
                self.unlink(storage, &old);
            }
            match &change.object {
                Some(object) => {
                    let object = Value::clone(object);
                    let stored = self.store.put(storage, namespace, name, object);
                    self.link(storage, &stored);
                }
                None => drop(self.store.delete(storage, namespace, name)),
            }
            self.touch(storage);
        }
        self.set_counters(transaction.counters);
        if let Some(tokens) = &transaction.tokens {
            self.tokens = tokens.clone();
        }
        if let Some(forgotten) = transaction.forgotten {
            self.store.compact(forgotten);
            self.forgotten = forgotten;
        }
        self.transactions = transaction.number;
    }
}

#[cfg(test)]
mod tests;
