//! Driver: wakes the watches of changed storages, many watches in rounds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::watch_wakers::{Bell, Bells};

/// The subscriptions to changes of storages. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    by_storage: Arc<Mutex<HashMap<StorageKey, Bells>>>,
}

/// A round that ends when this value is dropped: in time, or together with its runtime.
struct Round {
    changes: Changes,
    storage: StorageKey,
}

impl Changes {
    /// Rings the bell whenever the storage changes. Call it before the first poll.
    pub(crate) fn subscribe(&self, storage: &StorageKey, bell: &Arc<Bell>) {
        let mut by_storage = self.by_storage.lock();
        // Storages without watches are removed here, which is rarer than writes.
        by_storage.retain(|key, bells| key == storage || !bells.is_unheard());
        by_storage.entry(storage.clone()).or_default().hang(bell);
    }

    /// Wakes the subscribers of these storages, many subscribers in rounds (SRV-WATCH-3).
    pub(crate) fn tell(&self, changed: &[StorageKey]) {
        let has_timer = Handle::try_current().is_ok();
        let now = Instant::now().into_std();
        let mut by_storage = self.by_storage.lock();
        let mut rounds = Vec::new();
        for storage in changed {
            let Some(bells) = by_storage.get_mut(storage) else {
                continue;
            };
            if !has_timer {
                // Outside a runtime no task can end the round later.
                bells.ring_all(now);
            } else if let Some(ends) = bells.ring(now) {
                rounds.push((storage.clone(), ends));
            }
        }
        // A runtime that is shutting down drops spawned tasks at once, which would lock
        // `by_storage` again.
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
        if let Some(bells) = self.changes.by_storage.lock().get_mut(&self.storage) {
            bells.end_round(Instant::now().into_std());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;
    use tokio::runtime::Builder;

    use super::*;

    /// SRV-WATCH-3: a change wakes its watches even if the runtime that should end the round is
    /// gone.
    #[test]
    fn a_change_wakes_its_watches_after_the_runtime_of_its_round_is_gone() {
        let (changes, storage) = (Changes::default(), StorageKey::new("", "pods"));
        let crowd: Vec<Arc<Bell>> = (0..1000).map(|_| Arc::default()).collect();
        for bell in &crowd {
            changes.subscribe(&storage, bell);
        }
        let context = std::task::Context::from_waker(noop_waker_ref());
        let hears = |bell: &Arc<Bell>| bell.poll_rung(&context).is_ready();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let tell = || changes.tell(std::slice::from_ref(&storage));
            tell();
            assert!(crowd.iter().all(hears));
            tell();
            assert!(!crowd.iter().any(hears));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            assert!(crowd.iter().all(hears));
            tell();
            tell();
            assert!(crowd.iter().all(hears));
        });
        drop(runtime);
        assert!(crowd.iter().all(hears));
    }
}
