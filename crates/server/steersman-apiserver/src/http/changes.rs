//! Driver: wakes open watches after a change of their storage (the objects of one resource): a few watches at each
//! change, many in rounds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::watch_wakers::{StorageWakers, WatchWaker};

#[derive(Clone, Default)]
pub(crate) struct StorageChanges {
    by_storage: Arc<Mutex<HashMap<StorageKey, StorageWakers>>>,
}

/// A round of one storage ([`StorageWakers`]): a time in which changes do not wake its many watches at once. Dropping
/// this value ends the round and wakes the watches for these changes. It is dropped when the time is over, or when the
/// tokio runtime shuts down.
struct Round {
    changes: StorageChanges,
    storage: StorageKey,
}

impl StorageChanges {
    /// Registers the waker of a watch, so that every later change of the storage wakes the watch. Call it before the
    /// watch reads events the first time: a change between the read and the call would not wake the watch.
    pub(crate) fn subscribe(&self, storage: &StorageKey, waker: &Arc<WatchWaker>) {
        let mut by_storage = self.by_storage.lock();
        // Storages without watches are removed here, because watches begin less often than `notify` is called.
        by_storage.retain(|key, wakers| key == storage || !wakers.has_no_watches());
        by_storage.entry(storage.clone()).or_default().add(waker);
    }

    /// Wakes the watches of the changed storages: at once, or at the end of the storage's round (SRV-WATCH-3).
    pub(crate) fn notify(&self, changed: &[StorageKey]) {
        let has_timer = Handle::try_current().is_ok();
        let now = Instant::now().into_std();
        let mut by_storage = self.by_storage.lock();
        let mut rounds = Vec::new();
        for storage in changed {
            let Some(wakers) = by_storage.get_mut(storage) else {
                continue;
            };
            if !has_timer {
                // Outside a tokio runtime no task can wait for the end of a round, so all watches are woken at once.
                wakers.wake_all(now);
            } else if let Some(ends) = wakers.wake(now) {
                rounds.push((storage.clone(), ends));
            }
        }
        // Unlocks before `spawn`: a runtime that is shutting down drops the task at once, and `Round::drop` locks
        // `by_storage`.
        drop(by_storage);
        for (storage, ends) in rounds {
            let changes = self.clone();
            let round = Round { changes, storage };
            tokio::spawn(async move {
                sleep_until(ends.into()).await;
                drop(round);
            });
        }
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if let Some(wakers) = self.changes.by_storage.lock().get_mut(&self.storage) {
            wakers.end_round(Instant::now().into_std());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;
    use tokio::runtime::Builder;

    use super::*;

    /// SRV-WATCH-3: a change wakes its watches even if the runtime that should end the round is gone.
    #[test]
    fn a_change_wakes_its_watches_after_the_runtime_of_its_round_is_gone() {
        let (changes, storage) = (StorageChanges::default(), StorageKey::new("", "pods"));
        let watches: Vec<Arc<WatchWaker>> = (0..1000).map(|_| Arc::default()).collect();
        for waker in &watches {
            changes.subscribe(&storage, waker);
        }
        let context = std::task::Context::from_waker(noop_waker_ref());
        let is_woken = |waker: &Arc<WatchWaker>| waker.poll_woken(&context).is_ready();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let notify = || changes.notify(std::slice::from_ref(&storage));
            notify();
            assert!(watches.iter().all(is_woken));
            notify();
            assert!(!watches.iter().any(is_woken));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            assert!(watches.iter().all(is_woken));
            notify();
            notify();
            assert!(watches.iter().all(is_woken));
        });
        drop(runtime);
        assert!(watches.iter().all(is_woken));
    }
}
