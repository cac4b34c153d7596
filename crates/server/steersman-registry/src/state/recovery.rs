//! Machine: restores a registry from a snapshot and from the transactions that the write-ahead log has after it.

use serde_json::Value;

use super::registry::Registry;
use super::snapshot::Snapshot;
use super::transaction::{LoggedTransaction, TransactionError};

/// A snapshot, and the transactions of the write-ahead log after this snapshot.
///
/// A server that starts with a recovery has the state after the last transaction. Watches can resume from the
/// snapshot's revision or a later one (WAL-3: nothing that was acknowledged is lost).
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
    /// Adds the next transaction of the log, parsed from `text`. Ignores a transaction that the snapshot contains.
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

    /// Returns the number of the last transaction; the next transaction in the log must have this number plus 1.
    pub fn transactions(&self) -> u64 {
        let last = self.later.last();
        last.map_or(self.snapshot.transactions(), |last| last.number)
    }

    /// Returns the number of transactions after the snapshot, which a start replays.
    pub fn replayed(&self) -> usize {
        self.later.len()
    }
}

impl Registry {
    /// Replaces the whole state of the registry by the recovered state. Its CRDs are served when this returns.
    pub fn recover(&mut self, recovery: &Recovery) {
        self.restore_objects(&recovery.snapshot);
        for transaction in &recovery.later {
            self.replay(transaction);
        }
        self.store.take_after_writes().finish();
        self.serve_definitions();
        self.resume_removals();
    }

    /// Applies the changes of a logged transaction. No controller runs, because the log has their changes, too.
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
