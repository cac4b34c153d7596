//! Machine: the queue of the transactions that are not in the write-ahead log yet, in the order of their numbers.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use steersman_registry::Transaction;
use steersman_schema::resource::StorageKey;

const GROUP_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct WalQueue {
    waiting: VecDeque<WaitingTransaction>,
    pub(super) added: u64,
    /// The number of the last transaction in the log.
    pub(super) kept: u64,
    /// Whether the next transaction that is added starts a new file of the log, because a snapshot was taken.
    pub(super) cuts: bool,
    /// Why the log cannot be written at the moment; `None` if it can.
    pub(super) failure: Option<Arc<str>>,
}

#[derive(Debug)]
struct WaitingTransaction {
    transaction: Transaction,
    /// The storages that the transaction changed. Their watches are woken once the transaction is in the log.
    changed: Vec<StorageKey>,
    starts_file: bool,
}

/// Transactions in the order of their numbers, which are appended to the log together.
#[derive(Debug)]
#[must_use = "pass it to `keep` once it is in the log"]
pub struct WalGroup {
    /// At least one transaction, so that the group has a first and a last number.
    transactions: Vec<WaitingTransaction>,
}

impl WalGroup {
    /// Returns the number of the first transaction.
    pub fn first(&self) -> u64 {
        let first = self.transactions.first();
        first.map_or(0, |one| one.transaction.number())
    }

    /// Returns the number of the last transaction.
    pub fn last(&self) -> u64 {
        let last = self.transactions.last();
        last.map_or(0, |one| one.transaction.number())
    }

    /// Returns whether the group begins a new file of the log, after a snapshot that includes all earlier transactions.
    pub fn starts_file(&self) -> bool {
        self.transactions.first().is_some_and(|one| one.starts_file)
    }

    pub(super) fn revision(&self) -> u64 {
        let last = self.transactions.last();
        last.map_or(0, |one| one.transaction.revision())
    }

    /// Writes the transactions to `out`, each as one line of JSON.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        for one in &self.transactions {
            one.transaction.write(&mut out)?;
        }
        Ok(())
    }
}

impl WalQueue {
    pub(super) fn add(&mut self, transaction: Transaction, changed: Vec<StorageKey>) {
        self.added = transaction.number();
        self.waiting.push_back(WaitingTransaction {
            transaction,
            changed,
            starts_file: std::mem::take(&mut self.cuts),
        });
    }

    /// Takes waiting transactions as a group: at most `GROUP_MAX`, all for one file. `None` if no transaction waits.
    pub(super) fn take(&mut self) -> Option<WalGroup> {
        let waiting = self.waiting.iter().take(GROUP_MAX);
        let count = waiting
            .enumerate()
            .take_while(|(at, one)| *at == 0 || !one.starts_file)
            .count();
        let transactions: Vec<_> = self.waiting.drain(..count).collect();
        (!transactions.is_empty()).then_some(WalGroup { transactions })
    }

    /// Puts a group that could not be appended back in front of the waiting transactions.
    pub(super) fn put_back(&mut self, group: WalGroup) {
        for one in group.transactions.into_iter().rev() {
            self.waiting.push_front(one);
        }
    }

    /// Records that a group is in the log. Returns the storages that it changed, each once, to wake their watches.
    pub(super) fn keep(&mut self, group: WalGroup) -> Vec<StorageKey> {
        self.kept = self.kept.max(group.last());
        self.failure = None;
        let mut changed: Vec<StorageKey> = Vec::new();
        for one in group.transactions {
            for storage in one.changed {
                if !changed.contains(&storage) {
                    changed.push(storage);
                }
            }
        }
        changed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_registry::{Registry, RegistryOptions};

    use super::*;

    /// Returns a queue with `count` transactions, numbered from 1. Each transaction in `cuts` starts a new file of the
    /// log, as after a snapshot.
    fn queue(count: u64, cuts: &[u64]) -> WalQueue {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let mut registry = Registry::new(RegistryOptions::default(), now);
        registry.record_transactions();
        let mut queue = WalQueue::default();
        for number in 1..=count {
            if cuts.contains(&number) {
                queue.cuts = true;
            }
            let name = format!("sites-{number}.example.com");
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
                "spec": {"group": "example.com", "scope": "Namespaced",
                    "names": {"plural": format!("sites-{number}"), "kind": "Site"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            });
            registry.install_crd(crd, now).unwrap();
            let changed = registry.take_changed();
            queue.add(registry.take_transaction().unwrap(), changed);
        }
        queue
    }

    #[test]
    fn a_group_holds_the_waiting_transactions_up_to_a_new_file() {
        let mut queue = queue(5, &[1, 3, 4]);
        let mut groups = Vec::new();
        while let Some(group) = queue.take() {
            groups.push((group.first(), group.last(), group.starts_file()));
            let mut text = Vec::new();
            group.write(&mut text).unwrap();
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines as u64, group.last() + 1 - group.first());
            let mut changed = queue.keep(group);
            let count = changed.len();
            changed.sort();
            changed.dedup();
            assert_eq!(changed.len(), count, "each storage is woken once");
        }
        assert_eq!(groups, [(1, 2, true), (3, 3, true), (4, 5, true)]);
        assert_eq!(queue.kept, queue.added);
    }

    #[test]
    fn a_failure_lasts_until_a_group_is_in_the_log() {
        let mut queue = queue(1, &[]);
        queue.failure = Some("the disk is full".into());
        assert_eq!(queue.kept, 0);
        let group = queue.take().unwrap();
        queue.put_back(group);
        let group = queue.take().unwrap();
        assert_eq!((group.first(), group.last()), (1, 1));
        assert!(queue.failure.is_some() && queue.take().is_none());
        queue.keep(group);
        assert!(queue.failure.is_none());
    }
}
