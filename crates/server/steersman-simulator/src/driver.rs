//! Driver: the task that runs the turns of the simulator, after a change of the store or when a timer is due.

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

/// Approximate maximum of writes per turn, after which other tasks get access (PLAY-7).
const WRITES_PER_TURN: usize = 64;

/// Minimum number of objects for which a blocking thread is used to serialise and drop them.
const BACKGROUND_MIN: usize = 16;

/// Maximum number of objects that wait for a busy blocking thread (SRV-STORE-7).
const UNFINISHED_MAX: usize = 512;

/// Maximum number of turns in a row that panic before the next turn waits for a change.
const MAX_PANICS: u32 = 16;

/// The functions of the server that the simulator needs.
pub trait PlayedServer: Send + Sync + 'static {
    /// Returns the server's wall time.
    fn now(&self) -> Timestamp;
    /// Returns a receiver that every write to the store marks as changed.
    fn changes(&self) -> watch::Receiver<u64>;
    /// Waits until the server's write-ahead log, if there is one, holds the writes of earlier turns.
    fn caught_up(&self) -> impl Future<Output = ()> + Send;
    /// Calls `work` with the registry locked, then wakes the watches of changed objects. A request that waits for the
    /// registry gets the lock next.
    fn locked<R>(&self, work: impl FnOnce(&mut Registry) -> R) -> R;
}

/// Spawns a task on the current runtime that drives the simulator. Does nothing if no part of the cluster is simulated,
/// if another task drives the simulator, or outside a runtime; a later call inside a runtime starts the task.
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
    // A task of another runtime may have driven the simulator before, so its clock continues from the last turn.
    let driver = DriverGuard {
        shared: Arc::clone(shared),
        base: shared.machine.lock().tick(),
        started: Instant::now(),
    };
    runtime.spawn(run(driver, Arc::downgrade(server), stop.clone()));
}

/// A task's exclusive right to drive the simulator, until the task's runtime ends.
struct DriverGuard {
    shared: Arc<SharedSimulator>,
    /// The simulator's clock when this task took over.
    base: Duration,
    started: Instant,
}

impl DriverGuard {
    /// Returns the simulator's clock, which stands still while no task drives the simulator.
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
        // This wait bounds the number of transactions that wait for a slow write-ahead log (WAL-5).
        tokio::select! {
            () = stop.cancelled() => return,
            () = now.caught_up() => {}
        }
        // A panic ends only this turn: its object is ignored until it changes, and other objects are processed
        // (PLAY-6).
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
            // The channel is closed, because the server was dropped.
            seen = changed.changed() => if seen.is_err() { return },
            () = sleep_until(due.unwrap_or(driver.started)), if due.is_some() => {}
        }
    }
}

/// Runs one turn. Returns when the next turn is due, and the work that the writes of this turn left.
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

/// The work that the simulator's writes left, which a blocking thread does while the simulator continues.
#[derive(Default)]
struct Unfinished {
    left: AfterWrites,
    /// The task that does earlier work. There is one at a time, because later work needs the results of earlier work.
    task: Option<JoinHandle<()>>,
}

impl Unfinished {
    /// Adds the work of a turn. While a task does earlier work, the added work stays pending, up to `UNFINISHED_MAX`
    /// objects.
    fn add(&mut self, left: AfterWrites) {
        self.left.append(left);
        if !self.is_busy() || self.left.len() > UNFINISHED_MAX {
            self.finish();
        }
    }

    /// Does the pending work, much work in a blocking task. A paused clock does not advance before the task ends.
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
