//! Driver: puts the machine behind one lock and wakes those who wait.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::add_buffer::{AddBuffer, Pushed};
use crate::error::ShutDown;
use crate::exchange::{Arrival, Taken, Verdict};
use crate::index::Hashes;
use crate::key::Key;
use crate::machine::Machine;
use crate::metrics::Snapshot;
use crate::options::{AddOptions, QueueOptions};
use crate::ready::Slot;

/// What every handle and every ticket of one queue share.
pub(crate) struct Shared<T> {
    name: String,
    hashes: Hashes,
    inner: Mutex<Inner<T>>,
    add_buffer: AddBuffer<T>,
    // Wakes one worker for each change that a waiting worker has to look at.
    work: Notify,
    // Wakes everybody once the queue is closed.
    closed: Notify,
    // Passed as the time wherever the machine says that it does not look at it.
    created: Instant,
    // Whether it matters when a key was added.
    measured: bool,
}

struct Inner<T> {
    machine: Machine<T>,
    // What notes are exchanged for.
    empty: Vec<Arrival<T>>,
}

// Takes its worker off the count, also when the worker's future is dropped.
struct Parked<'a, T: Key>(&'a Shared<T>);

// === impl Shared ===

impl<T: Key> Shared<T> {
    pub(crate) fn new(options: QueueOptions<T>) -> Arc<Self> {
        let metrics = options.metrics.clone();
        let shared = Arc::new(Self {
            name: options.name.clone(),
            hashes: Hashes::default(),
            measured: metrics.is_some(),
            inner: Mutex::new(Inner {
                machine: Machine::new(options),
                empty: Vec::new(),
            }),
            add_buffer: AddBuffer::new(),
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
        read(&self.enter().machine)
    }

    pub(crate) fn add(&self, key: T, options: AddOptions) {
        let delayed = options.rate_limited || options.after.is_some_and(|after| !after.is_zero());
        let mut arrival = Arrival {
            hash: self.hashes.of(&key),
            key,
            options,
            now: if self.measured { clock() } else { self.created },
        };
        let entered = if delayed {
            let entered = self.enter();
            arrival.now = clock();
            Some(entered)
        } else if self.add_buffer.has_backlog() {
            None
        } else {
            self.try_enter()
        };
        let (mut inner, arrival) = match entered {
            Some(inner) => (inner, arrival),
            None => match self.add_buffer.push(arrival) {
                Pushed::WorkerParked(arrival) => (self.enter(), arrival),
                Pushed::Buffered => return,
                Pushed::Full => return drop(self.enter()),
            },
        };
        let news = inner.machine.add(arrival);
        self.add_buffer.set_ready(inner.machine.len());
        drop(inner);
        if news {
            self.wake_one();
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
            self.add_buffer.park();
            let parked = Parked(self);
            if let Some(end) = self.try_next() {
                return end;
            }
            let deadline = self.read(Machine::next_deadline);
            tokio::select! {
                () = work => {}
                () = closed => {}
                () = until(deadline) => {}
            }
            drop(parked);
        }
    }

    /// Ends the hold of a key; answers the delay that the verdict asked for.
    pub(crate) fn release(&self, slot: Slot, verdict: Verdict) -> Option<Duration> {
        let delayed = matches!(verdict, Verdict::After(_) | Verdict::Backoff);
        let early = self.measured.then(clock);
        let mut inner = self.enter();
        let machine = &mut inner.machine;
        let now = early.unwrap_or_else(|| self.now(machine, delayed));
        let was_closed = machine.is_closed();
        let released = machine.release(slot, verdict, now);
        let closes = machine.is_closed() && !was_closed;
        drop(inner);
        if released.wake {
            self.wake_one();
        }
        if closes {
            self.closed.notify_waiters();
        }
        released.delay
    }

    pub(crate) fn shut_down(&self) -> usize {
        let mut inner = self.enter();
        let dropped = inner.machine.shut_down();
        // What comes now is refused inside, and not kept at the door.
        self.add_buffer.set_ready(inner.machine.len());
        drop(inner);
        self.closed.notify_waiters();
        dropped
    }

    pub(crate) async fn drain(&self) {
        let mut closed = pin!(self.closed.notified());
        closed.as_mut().enable();
        let is_closed = {
            let machine = &mut self.enter().machine;
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
        // Where the time matters anyway it is read while nobody waits for it.
        let early = self.measured.then(clock);
        let mut inner = self.enter();
        let machine = &mut inner.machine;
        let now = early.unwrap_or_else(|| self.now(machine, false));
        let taken = machine.next(now);
        let closed = machine.is_closed();
        // This worker leaves; whatever else is ready or has a deadline needs another one awake.
        let more = taken.is_some() && machine.has_more();
        self.add_buffer.set_ready(machine.len());
        drop(inner);
        if more {
            self.wake_one();
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

    fn enter(&self) -> MutexGuard<'_, Inner<T>> {
        self.apply_buffered(self.inner.lock())
    }

    fn try_enter(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        Some(self.apply_buffered(self.inner.try_lock()?))
    }

    // WQ-7: nobody sees the machine before it has what was left at the door.
    fn apply_buffered<'a>(&self, mut inner: MutexGuard<'a, Inner<T>>) -> MutexGuard<'a, Inner<T>> {
        let Inner { machine, empty } = &mut *inner;
        self.add_buffer.swap(empty);
        if !empty.is_empty() {
            machine.add_all(empty);
            self.add_buffer.set_ready(machine.len());
        }
        inner
    }

    // Nobody is notified while nobody sleeps, which is how a busy queue saves itself the cost.
    fn wake_one(&self) {
        if self.add_buffer.has_parked_workers() {
            self.work.notify_one();
        }
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

// === impl Parked ===

impl<T: Key> Drop for Parked<'_, T> {
    fn drop(&mut self) {
        self.0.add_buffer.unpark();
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
