//! Driver: puts the machine behind one lock and wakes parked workers.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::add_buffer::{AddBuffer, Pushed};
use crate::error::ShutDown;
use crate::exchange::{Arrival, Taken, Verdict};
use crate::index::Hashes;
use crate::key::Key;
use crate::machine::Machine;
use crate::metrics::QueueSnapshot;
use crate::options::{AddOptions, Priority, QueueOptions};
use crate::ready::KeySlot;
use crate::sync::{Mutex, MutexGuard, Notify};

/// The state that the handles and tickets of one queue share.
pub(crate) struct SharedQueue<T> {
    pub(crate) name: String,
    hashes: Hashes,
    locked: Mutex<Locked<T>>,
    add_buffer: AddBuffer<T>,
    // Notifies one parked worker of a ready key or an earlier deadline.
    work: Notify,
    // Notifies all parked workers when the queue is closed.
    closed: Notify,
    // The instant that the machine gets when it does not use the time.
    created: Instant,
    // Whether every step reads the clock: the queue has metrics or a limit of runs.
    times_every_step: bool,
    // Whether each taken key reads the clock: the queue records the times of holds, or times every step.
    times_holds: bool,
}

struct Locked<T> {
    machine: Machine<T>,
    // An empty vector with capacity, to be exchanged for the buffered adds.
    empty: Vec<Arrival<T>>,
}

// Counts a worker as parked until dropped. The worker's future owns this value, so both are dropped together.
struct Parked<'a, T: Key>(&'a SharedQueue<T>);

// Notifies another worker when dropped, so that the notification of a ready key is not lost.
struct Handover<'a, T: Key>(&'a SharedQueue<T>);

// === impl SharedQueue ===

impl<T: Key> SharedQueue<T> {
    pub(crate) fn new(options: QueueOptions<T>) -> Arc<Self> {
        let (metrics, name) = (options.metrics.clone(), options.name.clone());
        let machine = Machine::new(options);
        let (times_every_step, times_holds) = (machine.times_every_step(), machine.records_times());
        let shared = Arc::new(Self {
            name,
            hashes: Hashes::default(),
            times_every_step,
            times_holds,
            locked: Mutex::new(Locked {
                machine,
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

    pub(crate) fn read<R>(&self, read: impl FnOnce(&Machine<T>) -> R) -> R {
        read(&self.enter().machine)
    }

    pub(crate) fn add(&self, key: T, options: AddOptions) {
        let delayed = options.rate_limited || options.after.is_some_and(|after| !after.is_zero());
        let mut arrival = Arrival {
            hash: self.hashes.of(&key),
            key,
            options,
            now: if self.times_every_step || options.uses_time() {
                clock()
            } else {
                self.created
            },
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
        let (mut locked, arrival) = match entered {
            Some(locked) => (locked, arrival),
            None => match self.add_buffer.push(arrival) {
                Pushed::WorkerParked(arrival) => (self.enter(), arrival),
                Pushed::Buffered => return,
                Pushed::Full => return drop(self.enter()),
            },
        };
        let news = locked.machine.handle_add(arrival);
        self.add_buffer.set_ready(locked.machine.len());
        drop(locked);
        if news {
            self.wake_one();
        }
    }

    /// Takes the next key, and waits while there is none.
    ///
    /// A key is taken only in the poll that returns it, so dropping the future loses no key.
    pub(crate) async fn next(&self) -> Result<Taken<T>, ShutDown> {
        self.wait_for(Self::try_next).await
    }

    /// Waits until a key is ready, then for a permit, and takes a key only then (WQ-10).
    pub(crate) async fn next_with<P, F>(
        &self,
        mut permit: impl FnMut() -> F,
    ) -> Result<(Taken<T>, P), ShutDown>
    where
        F: Future<Output = P>,
    {
        loop {
            self.wait_for(Self::try_ready).await?;
            // This worker got the notification of the ready key. If its future is dropped while it waits for the
            // permit, `handover` notifies another worker.
            let handover = Handover(self);
            let mut closed = pin!(self.closed.notified());
            closed.as_mut().enable();
            if self.read(Machine::is_closed) {
                return Err(ShutDown(()));
            }
            let permit = tokio::select! {
                biased;
                () = closed => return Err(ShutDown(())),
                permit = permit() => permit,
            };
            std::mem::forget(handover);
            // Another worker may have taken the key meanwhile; then the loop starts again.
            if let Some(taken) = self.try_next() {
                return Ok((taken?, permit));
            }
        }
    }

    async fn wait_for<R>(&self, look: impl Fn(&Self) -> Option<R>) -> R {
        if let Some(end) = look(self) {
            return end;
        }
        loop {
            // Both waiters are registered before the machine is checked, so that no notification is missed.
            let mut work = pin!(self.work.notified());
            let mut closed = pin!(self.closed.notified());
            work.as_mut().enable();
            closed.as_mut().enable();
            self.add_buffer.park();
            let parked = Parked(self);
            if let Some(end) = look(self) {
                return end;
            }
            let deadline = self.read(Machine::deadline);
            tokio::select! {
                // The order is fixed, because loom explores only deterministic code.
                biased;
                () = work => {}
                () = closed => {}
                () = until(deadline) => {}
            }
            drop(parked);
        }
    }

    /// Ends the hold of a key. Returns the delay that the verdict requested.
    pub(crate) fn release(
        &self,
        slot: KeySlot,
        verdict: Verdict,
        next: Option<Priority>,
    ) -> Option<Duration> {
        let delayed = !matches!(verdict, Verdict::Forget | Verdict::Settle);
        let early = self.times_every_step.then(clock);
        let mut locked = self.enter();
        let machine = &mut locked.machine;
        let now = early.unwrap_or_else(|| self.now(machine, delayed));
        let was_closed = machine.is_closed();
        let released = machine.handle_end(slot, verdict, next, now);
        let closes = machine.is_closed() && !was_closed;
        drop(locked);
        if released.wake {
            self.wake_one();
        }
        if closes {
            self.closed.notify_waiters();
        }
        released.delay
    }

    pub(crate) fn shut_down(&self) -> usize {
        let mut locked = self.enter();
        let dropped = locked.machine.handle_shut_down();
        // From now on the machine refuses adds, so they must not be buffered.
        self.add_buffer.set_ready(locked.machine.len());
        drop(locked);
        self.closed.notify_waiters();
        dropped
    }

    pub(crate) async fn drain(&self) {
        let mut closed = pin!(self.closed.notified());
        closed.as_mut().enable();
        let is_closed = {
            let machine = &mut self.enter().machine;
            machine.handle_drain(clock());
            machine.is_closed()
        };
        if is_closed {
            self.closed.notify_waiters();
        } else {
            closed.await;
        }
    }

    fn try_next(&self) -> Option<Result<Taken<T>, ShutDown>> {
        // If every take needs the time, the clock is read before the lock is taken, to shorten the hold of the lock.
        let early = self.times_holds.then(clock);
        let mut locked = self.enter();
        let machine = &mut locked.machine;
        let now = early.unwrap_or_else(|| self.now(machine, false));
        let taken = machine.next_key(now);
        let closed = machine.is_closed();
        // This worker will be busy, so another worker is woken for the remaining keys and deadlines.
        let more = taken.is_some() && machine.has_more();
        self.add_buffer.set_ready(machine.len());
        drop(locked);
        if more {
            self.wake_one();
        }
        match taken {
            Some(taken) => Some(Ok(taken)),
            None if closed => Some(Err(ShutDown(()))),
            None => None,
        }
    }

    /// Returns `Some` if a key is ready or the queue is closed, without taking the key.
    fn try_ready(&self) -> Option<Result<(), ShutDown>> {
        let locked = self.enter();
        let machine = &locked.machine;
        if machine.is_closed() {
            return Some(Err(ShutDown(())));
        }
        let has_ready = machine.has_ready(self.now(machine, false));
        has_ready.then_some(Ok(()))
    }

    fn snapshot(&self) -> QueueSnapshot {
        let now = clock();
        self.read(|machine| machine.snapshot(now))
    }

    fn enter(&self) -> MutexGuard<'_, Locked<T>> {
        self.apply_buffered(self.locked.lock())
    }

    fn try_enter(&self) -> Option<MutexGuard<'_, Locked<T>>> {
        Some(self.apply_buffered(self.locked.try_lock()?))
    }

    // WQ-7: applies the buffered adds before any access to the machine.
    fn apply_buffered<'a>(
        &self,
        mut locked: MutexGuard<'a, Locked<T>>,
    ) -> MutexGuard<'a, Locked<T>> {
        let Locked { machine, empty } = &mut *locked;
        self.add_buffer.swap(empty);
        if !empty.is_empty() {
            machine.handle_adds(empty);
            self.add_buffer.set_ready(machine.len());
        }
        locked
    }

    // Notifies only if a worker is parked; a busy queue never pays for a notification.
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

// === impl Parked ===

impl<T: Key> Drop for Parked<'_, T> {
    fn drop(&mut self) {
        self.0.add_buffer.unpark();
    }
}

// === impl Handover ===

impl<T: Key> Drop for Handover<'_, T> {
    fn drop(&mut self) {
        self.0.wake_one();
    }
}

fn clock() -> Instant {
    #[cfg(test)]
    CLOCK_READS.set(CLOCK_READS.get() + 1);
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
std::thread_local! {
    /// The number of times that this thread has read the clock.
    static CLOCK_READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
