//! Driver: puts the machine behind one lock and wakes those who wait.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::ShutDown;
use crate::key::Key;
use crate::machine::{Machine, Taken, Verdict};
use crate::metrics::Snapshot;
use crate::options::{AddOptions, QueueOptions};
use crate::order::Slot;

/// What every handle and every ticket of one queue share.
pub(crate) struct Shared<T> {
    name: String,
    state: Mutex<State<T>>,
    // Wakes one worker for each change that a waiting worker has to look at.
    work: Notify,
    // Wakes everybody once the queue is closed.
    closed: Notify,
    // Passed as the time wherever the machine says that it does not look at it.
    created: Instant,
}

struct State<T> {
    machine: Machine<T>,
    // How many workers wait. Nobody is notified while it is zero, which is how a busy queue saves
    // itself the cost of notifying.
    idle_workers: usize,
}

// Takes its worker off the count, also when the worker's future is dropped.
struct Waits<'a, T: Key>(&'a Shared<T>);

// === impl Shared ===

impl<T: Key> Shared<T> {
    pub(crate) fn new(options: QueueOptions<T>) -> Arc<Self> {
        let metrics = options.metrics.clone();
        let shared = Arc::new(Self {
            name: options.name.clone(),
            state: Mutex::new(State {
                machine: Machine::new(options),
                idle_workers: 0,
            }),
            work: Notify::new(),
            closed: Notify::new(),
            created: clock(),
        });
        if let Some(metrics) = metrics {
            let weak = Arc::downgrade(&shared);
            metrics.attach(Box::new(move || Some(weak.upgrade()?.snapshot())));
        }
        shared
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&Machine<T>) -> R) -> R {
        read(&self.state.lock().machine)
    }

    pub(crate) fn add(&self, key: T, options: AddOptions) {
        let delayed = options.rate_limited || options.after.is_some();
        let mut state = self.state.lock();
        let now = self.now(&state.machine, delayed);
        let wake = state.machine.add(key, options, now) && state.idle_workers > 0;
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    /// Takes the next key, waiting for one where there is none.
    ///
    /// A key is taken only in the very poll that returns it, so dropping the future loses none.
    pub(crate) async fn next(&self) -> Result<Taken<T>, ShutDown> {
        if let Some(end) = self.try_next() {
            return end;
        }
        loop {
            // Enlisted before the queue is looked at, so that no change in between goes unseen.
            let mut work = pin!(self.work.notified());
            let mut closed = pin!(self.closed.notified());
            work.as_mut().enable();
            closed.as_mut().enable();
            self.state.lock().idle_workers += 1;
            let waits = Waits(self);
            if let Some(end) = self.try_next() {
                return end;
            }
            let deadline = self.read(Machine::next_deadline);
            tokio::select! {
                () = work => {}
                () = closed => {}
                () = until(deadline) => {}
            }
            drop(waits);
        }
    }

    /// Ends the hold of a key; answers the delay that the verdict asked for.
    pub(crate) fn release(&self, slot: Slot, verdict: Verdict) -> Option<Duration> {
        let delayed = matches!(verdict, Verdict::After(_) | Verdict::Backoff);
        let mut state = self.state.lock();
        let now = self.now(&state.machine, delayed);
        let was_closed = state.machine.is_closed();
        let released = state.machine.release(slot, verdict, now);
        let wake = released.wake && state.idle_workers > 0;
        let closes = state.machine.is_closed() && !was_closed;
        drop(state);
        if wake {
            self.work.notify_one();
        }
        if closes {
            self.closed.notify_waiters();
        }
        released.delay
    }

    pub(crate) fn shut_down(&self) -> usize {
        let dropped = self.state.lock().machine.shut_down();
        self.closed.notify_waiters();
        dropped
    }

    pub(crate) async fn drain(&self) {
        let mut closed = pin!(self.closed.notified());
        closed.as_mut().enable();
        let is_closed = {
            let machine = &mut self.state.lock().machine;
            machine.drain(clock());
            machine.is_closed()
        };
        if is_closed {
            self.closed.notify_waiters();
        } else {
            closed.await;
        }
    }

    fn try_next(&self) -> Option<Result<Taken<T>, ShutDown>> {
        let mut state = self.state.lock();
        let now = self.now(&state.machine, false);
        let taken = state.machine.next(now);
        let closed = state.machine.is_closed();
        // This worker leaves; whatever else is ready or has a deadline needs another one awake.
        let wake = taken.is_some() && state.idle_workers > 0 && state.machine.has_more();
        drop(state);
        if wake {
            self.work.notify_one();
        }
        match taken {
            Some(taken) => Some(Ok(taken)),
            None if closed => Some(Err(ShutDown(()))),
            None => None,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let now = clock();
        self.read(|machine| machine.snapshot(now))
    }

    fn now(&self, machine: &Machine<T>, delayed: bool) -> Instant {
        if delayed || machine.needs_clock() {
            clock()
        } else {
            self.created
        }
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

// === impl Waits ===

impl<T: Key> Drop for Waits<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().idle_workers -= 1;
    }
}

fn clock() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
