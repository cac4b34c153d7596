//! Handle: the queue, cheap to clone.

use std::sync::Arc;
use std::time::Instant;

use crate::error::ShutDown;
use crate::key::Key;
use crate::machine::Machine;
use crate::options::{AddOptions, QueueOptions};
use crate::report::{KeyReport, QueueReport};
use crate::shared::SharedQueue;
use crate::ticket::Ticket;

/// A deduplicating, prioritised, delaying work queue; clones share one queue.
///
/// Adding never waits and never fails: the queue is bounded by the number of distinct keys.
#[derive(Clone, derive_more::Debug)]
#[debug("Queue {{ name: {:?}, .. }}", shared.name)]
pub struct Queue<T: Key> {
    shared: Arc<SharedQueue<T>>,
}

impl<T: Key> Queue<T> {
    /// Makes an empty queue. It spawns no task.
    #[must_use]
    pub fn new(options: QueueOptions<T>) -> Self {
        Self {
            shared: SharedQueue::new(options),
        }
    }

    /// Returns the name of the queue, from its options.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds a key with normal priority and without a delay.
    pub fn add(&self, key: T) {
        self.shared.add(key, AddOptions::new());
    }

    /// Adds a key.
    ///
    /// - A ready key stays ready; a higher priority moves it to the end of that priority's line.
    /// - An immediate add absorbs a pending delay of the key; of two delays the earlier deadline counts (WQ-4).
    /// - A key that a ticket holds runs exactly once more after the ticket has ended (WQ-2).
    /// - After [`shut_down`](Self::shut_down) or [`drain`](Self::drain) an add has no effect (WQ-6).
    pub fn add_with(&self, key: T, options: AddOptions) {
        self.shared.add(key, options);
    }

    /// Takes the next key, and waits while there is none. The highest priority goes first, and within one priority the
    /// oldest key; a share of the turns goes to the oldest key of all (WQ-5).
    ///
    /// # Errors
    ///
    /// [`ShutDown`] once the queue is shut down, or drained to the end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a future dropped before it returned has taken no key.
    pub async fn next(&self) -> Result<Ticket<T>, ShutDown> {
        let taken = self.shared.next().await?;
        Ok(Ticket::new(Arc::clone(&self.shared), taken))
    }

    /// Takes the next key like [`next`](Self::next), but only with a permit: waits until a key is ready, then for the
    /// future of `permit`, and then takes a key. So no key is held while its worker waits for a permit, and no permit
    /// is held while its worker waits for a key (WQ-10).
    ///
    /// If other workers have taken the ready keys meanwhile, the permit is dropped, and the call waits for another
    /// ready key and another permit.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] once the queue is shut down, or drained to the end, even during the wait for the permit.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if the future of `permit` is: a future dropped before it returned has taken no key.
    pub async fn next_with<P, F>(
        &self,
        permit: impl FnMut() -> F,
    ) -> Result<(Ticket<T>, P), ShutDown>
    where
        F: Future<Output = P>,
    {
        let (taken, permit) = self.shared.next_with(permit).await?;
        Ok((Ticket::new(Arc::clone(&self.shared), taken), permit))
    }

    /// Returns the number of ready keys. Delayed and held keys do not count.
    pub fn len(&self) -> usize {
        self.shared.read(Machine::len)
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether no key is ready, delayed or held.
    pub fn idle(&self) -> bool {
        self.shared.read(Machine::idle)
    }

    /// Returns the keys that tickets hold, in no particular order.
    pub fn held(&self) -> Vec<T> {
        self.shared.read(Machine::held)
    }

    /// Returns the keys that tickets hold, each with the instant at which its ticket was taken, in no particular order.
    /// Empty unless the queue [records times](QueueOptions::record_times).
    pub fn held_since(&self) -> Vec<(T, Instant)> {
        self.shared.read(Machine::held_since)
    }

    /// Returns how many keys are ready, delayed and held, and at most `most` keys of each state.
    ///
    /// Made for people: it visits every ready or delayed key under the lock of the queue.
    pub fn report(&self, most: usize) -> QueueReport<T> {
        self.shared.read(|machine| machine.report(most))
    }

    /// Returns the state of the first key for which `matches` returns true; `None` if the queue holds no such key.
    ///
    /// Made for people: it may visit every key under the lock of the queue, so `matches` must be quick, and must not
    /// call the queue.
    pub fn find(&self, matches: impl Fn(&T) -> bool) -> Option<KeyReport<T>> {
        self.shared.read(|machine| machine.find(matches))
    }

    /// Closes the queue at once, and returns the number of dropped keys.
    ///
    /// Waiting workers get [`ShutDown`], ready and delayed keys are dropped, and held keys do not run again.
    pub fn shut_down(&self) -> usize {
        self.shared.shut_down()
    }

    /// Refuses adds, drops delayed keys, and waits until each ready key has had its run; then the queue is closed.
    /// [`dropped`](Self::dropped) counts the dropped keys.
    ///
    /// A run that a ticket requests meanwhile, by [`after`](Ticket::after), by [`backoff`](Ticket::backoff) or by being
    /// dropped, is dropped as well, whatever its delay. So a drain ends however the tickets end (WQ-8).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the queue goes on draining, and a later call waits for the end.
    pub async fn drain(&self) {
        self.shared.drain().await;
    }

    /// Returns the number of keys that a shut-down or drain dropped, including held keys that had to run again.
    pub fn dropped(&self) -> usize {
        self.shared.read(Machine::dropped)
    }
}
