//! Driver: the task that runs the simulator's turns: after each change of the store, and when a timer is due.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use steersman_registry::Registry;
use steersman_store::AfterWrites;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::actions::turn_context::TurnTime;
use super::handle::{SharedSimulator, Simulator};
use super::machine::NextTurn;

/// Approximate maximum number of writes per turn. Between turns, requests get the registry's lock (PLAY-7).
const WRITES_PER_TURN: usize = 64;

/// From this number of changed objects on, a blocking thread serialises and frees them, so that no turn has to wait.
const BACKGROUND_MIN: usize = 16;

/// Maximum number of changed objects that wait for the blocking thread: decoded, they use memory (SRV-STORE-7).
const UNFINISHED_MAX: usize = 512;

/// Number of turns that may panic in a row. Then the next turn waits for a change, so that the task does not spin.
const MAX_PANICS: u32 = 16;

/// What the simulator needs of the server: its time, its changes, and access to its registry.
pub trait PlayedServer: Send + Sync + 'static {
    /// Returns the server's wall time, which the simulator writes into objects.
    fn now(&self) -> Timestamp;
    /// Returns a receiver that is marked as changed by every write to the store.
    fn changes(&self) -> watch::Receiver<u64>;
    /// Waits until the write-ahead log holds the writes of earlier turns; returns at once without such a log.
    fn caught_up(&self) -> impl Future<Output = ()> + Send;
    /// Runs `work` with the registry locked, and then wakes the watches of changed objects. A request that waits for
    /// the lock gets it next.
    fn locked<R>(&self, work: impl FnOnce(&mut Registry) -> R) -> R;
}

/// Spawns a task on the current tokio runtime that drives the simulator. Does nothing if no simulated part needs a
/// task, if a task drives it already, or outside a runtime; then a later call inside a runtime starts the task.
pub fn start<S: PlayedServer>(simulator: &Simulator, server: &Arc<S>, stop: &CancellationToken) {
    let shared = &simulator.shared;
    if !shared.needs_task || shared.is_driven.load(Ordering::Acquire) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if shared.is_driven.swap(true, Ordering::AcqRel) {
        return;
    }
    // Another task may have driven the simulator before: the simulator's clock continues where that task stopped.
    let driver = DriverGuard {
        shared: Arc::clone(shared),
        base: shared.machine.lock().tick(),
        started: Instant::now(),
    };
    runtime.spawn(run(driver, Arc::downgrade(server), stop.clone()));
}

/// The exclusive right of one task to drive the simulator. The end of the task or of its runtime drops the guard.
struct DriverGuard {
    shared: Arc<SharedSimulator>,
    /// The time on the simulator's clock at which this task began to drive it.
    base: Duration,
    started: Instant,
}

impl DriverGuard {
    /// Returns the time on the simulator's clock, which stands still while no task drives the simulator.
    fn tick(&self) -> Duration {
        self.base.saturating_add(self.started.elapsed())
    }
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        self.shared.machine.lock().advance_clock(self.tick());
        self.shared.is_driven.store(false, Ordering::Release);
    }
}

async fn run<S: PlayedServer>(driver: DriverGuard, server: Weak<S>, stop: CancellationToken) {
    let shared = &driver.shared;
    let Some(mut changed) = server.upgrade().map(|server| server.changes()) else {
        return;
    };
    let mut unfinished = Unfinished::default();
    let mut panics = 0;
    while !stop.is_cancelled() {
        changed.borrow_and_update();
        let Some(now) = server.upgrade() else {
            return;
        };
        // Without this wait, a slow write-ahead log would collect an unlimited number of transactions (WAL-5).
        tokio::select! {
            () = stop.cancelled() => return,
            () = now.caught_up() => {}
        }
        // A panic ends only this turn: the object that caused it waits for its next change, others are next (PLAY-6).
        let played = catch_unwind(AssertUnwindSafe(|| turn(shared, &*now, driver.tick())));
        drop(now);
        panics = if played.is_ok() { 0 } else { panics + 1 };
        let next = match played {
            Ok((next, left)) => {
                unfinished.add(left);
                next
            }
            Err(_) if panics < MAX_PANICS => NextTurn::Again,
            Err(_) => NextTurn::Change,
        };
        let due = match next {
            NextTurn::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            NextTurn::At(tick) => driver.started.checked_add(tick.saturating_sub(driver.base)),
            NextTurn::Change => None,
        };
        unfinished.finish();
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.wake_up.notified() => {}
            // The channel is closed only when the server was dropped.
            seen = changed.changed() => if seen.is_err() { return },
            () = sleep_until(due.unwrap_or(driver.started)), if due.is_some() => {}
        }
    }
}

/// Runs one turn. Returns when the next turn is due, and the work on written objects that is left to do.
fn turn<S: PlayedServer>(
    shared: &SharedSimulator,
    server: &S,
    tick: Duration,
) -> (NextTurn, AfterWrites) {
    let settings = shared.settings.lock().clone();
    let mut machine = shared.machine.lock();
    if shared.reconsider.swap(false, Ordering::AcqRel) {
        machine.reconsider_pods();
    }
    let wall = server.now();
    let now = TurnTime { wall, tick };
    server.locked(|registry| {
        let next = machine.turn(registry, &settings, now, WRITES_PER_TURN);
        (next, registry.take_after_writes())
    })
}

/// The work that the simulator's writes leave for later: serialising new objects, and dropping old ones.
#[derive(Default)]
struct Unfinished {
    left: AfterWrites,
    /// The running task with earlier work. There is at most one, because later work needs the results of earlier work.
    task: Option<JoinHandle<()>>,
}

impl Unfinished {
    /// Adds the work of a turn. While the blocking task is busy, the work waits, until there are more than
    /// `UNFINISHED_MAX` objects: then it is done in this task.
    fn add(&mut self, left: AfterWrites) {
        self.left.append(left);
        if !self.is_busy() || self.left.len() > UNFINISHED_MAX {
            self.finish();
        }
    }

    /// Does the waiting work: for many objects in a blocking task, which holds tokio's paused clock until it ends;
    /// otherwise, or while such a task runs, in this task.
    fn finish(&mut self) {
        let left = std::mem::take(&mut self.left);
        if left.len() < BACKGROUND_MIN || self.is_busy() {
            left.finish();
        } else {
            self.task = Some(tokio::task::spawn_blocking(move || left.finish()));
        }
    }

    fn is_busy(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }
}
