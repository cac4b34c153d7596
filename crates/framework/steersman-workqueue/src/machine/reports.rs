//! Machine: reports the keys of the queue without changing them.

use std::cmp::Reverse;

use crate::key::Key;
use crate::machine::Machine;
use crate::options::Priority;
use crate::ready::KeySlot;
use crate::report::{KeyReport, KeyState, QueueReport};
use crate::table::{KeyEntry, KeyStatus};

impl<T: Key> Machine<T> {
    /// Returns the numbers of keys by state, and at most `most` keys of each state. Takes time with the number of keys.
    pub(crate) fn report(&self, most: usize) -> QueueReport<T> {
        let mut held: Vec<_> = self.held.iter().map(|one| (one.since, one.slot)).collect();
        held.sort_unstable();
        let mut ready = Vec::new();
        for slot in self.table.slots() {
            if let Some(entry) = self.table.get(slot)
                && let KeyStatus::Ready { turn, .. } = entry.status
            {
                ready.push((turn, slot));
            }
        }
        if ready.len() > most {
            // Only the first ones are sorted.
            ready.select_nth_unstable(most);
            ready.truncate(most);
        }
        ready.sort_unstable();
        let held_slots = held.iter().map(|(_, slot)| *slot).take(most);
        let ready_slots = ready.into_iter().map(|(_, slot)| slot);
        let waiting = || self.delayed.slots().filter(|slot| self.is_waiting(*slot));
        let slots = held_slots.chain(ready_slots).chain(waiting().take(most));
        let (failing, retrying) = self.failing(most);
        QueueReport {
            ready: self.ready.len(),
            delayed: waiting().count(),
            held: self.held.len(),
            keys: slots.filter_map(|slot| self.key_report(slot)).collect(),
            retrying,
            failing,
        }
    }

    /// Returns the first key that matches. Takes time with the number of keys.
    pub(crate) fn find(&self, matches: impl Fn(&T) -> bool) -> Option<KeyReport<T>> {
        let mut slots = self.table.slots();
        let is_sought = |slot: &KeySlot| {
            let key = self.table.get(*slot).and_then(KeyEntry::key);
            key.is_some_and(&matches)
        };
        self.key_report(slots.find(is_sought)?)
    }

    /// Returns the keys with the most failures, and the number of all keys that wait for a retry.
    fn failing(&self, most: usize) -> (Vec<KeyReport<T>>, usize) {
        let slots = self.table.slots().filter(|slot| self.has_retry(*slot));
        let failures = |slot| {
            let key = self.table.get(slot).and_then(KeyEntry::key);
            key.map_or(0, |key| self.limiter.failures(key))
        };
        let mut failing: Vec<_> = slots.map(|slot| (Reverse(failures(slot)), slot)).collect();
        let retrying = failing.len();
        if retrying > most {
            // Only the first ones are sorted and copied.
            failing.select_nth_unstable(most);
            failing.truncate(most);
        }
        failing.sort_unstable();
        let slots = failing.into_iter().map(|(_, slot)| slot);
        let failing = slots.filter_map(|slot| self.key_report(slot));
        (failing.collect(), retrying)
    }

    /// Returns whether a key has failed and waits for its retry.
    fn has_retry(&self, slot: KeySlot) -> bool {
        let due = self.table.get(slot).and_then(|entry| entry.due.as_deref());
        due.is_some_and(|due| due.retry.is_some())
    }

    fn is_waiting(&self, slot: KeySlot) -> bool {
        let status = self.table.get(slot).map(|entry| entry.status);
        status == Some(KeyStatus::Neither)
    }

    fn key_report(&self, slot: KeySlot) -> Option<KeyReport<T>> {
        let entry = self.table.get(slot)?;
        let key = entry.key()?.clone();
        let due = entry.due.as_deref();
        let (state, priority) = match entry.status {
            KeyStatus::Held { priority, position } => {
                let held = self.held.get(position as usize)?;
                let since = self.records_times().then_some(held.since);
                let runs_again = held.again.is_some();
                (KeyState::Held { since, runs_again }, priority)
            }
            KeyStatus::Ready { priority, .. } => {
                let since = self.metrics.as_ref();
                let since = since.and_then(|_| self.table.instant_of(entry.added));
                (KeyState::Ready { since }, priority)
            }
            KeyStatus::Neither => {
                let until = due?.at?.deadline;
                let priority = due.map_or(Priority::NORMAL, |due| due.priority);
                (KeyState::Delayed { until }, priority)
            }
        };
        Some(KeyReport {
            failures: self.limiter.failures(&key),
            key,
            state,
            priority,
            retry_at: due.and_then(|due| due.retry).map(|retry| retry.deadline),
        })
    }
}
