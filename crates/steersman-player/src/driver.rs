//! Driver: the task that gives the player its turns: at each change, and when its time has come.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use steersman_registry::Registry;
use steersman_registry::store::Stored;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::handle::{Player, Shared};
use super::machine::Next;
use super::world::Now;

/// About how many writes the player does before others get at the store (PLAY-7).
const BUDGET: usize = 64;

/// So many replaced objects are worth another thread's attention.
const MANY: usize = 16;

/// After so many turns in a row that panicked, the next one waits for a change.
const PANICS: u32 = 16;

/// What the player needs of the server that it plays in.
pub trait Stage: Send + Sync + 'static {
    /// The wall time.
    fn now(&self) -> Timestamp;
    /// Is marked changed at every change of the store.
    fn changes(&self) -> watch::Receiver<u64>;
    /// Runs with the registry locked, then wakes the watches of what changed.
    fn locked<R>(&self, work: impl FnOnce(&mut Registry) -> R) -> R;
}

/// Lets a task of this runtime drive the player, where there is something to play and no task does
/// it yet. Outside a runtime nothing happens: the next one that comes along drives it.
pub fn start<S: Stage>(player: &Player, stage: &Arc<S>, stop: &CancellationToken) {
    let shared = &player.shared;
    if !shared.wanted || shared.driven.load(Ordering::Acquire) {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if shared.driven.swap(true, Ordering::AcqRel) {
        return;
    }
    // Another runtime's task may have driven the player before: its clock goes on from there.
    let driven = Driven {
        shared: Arc::clone(shared),
        base: shared.machine.lock().tick(),
        started: Instant::now(),
    };
    runtime.spawn(run(driven, Arc::downgrade(stage), stop.clone()));
}

/// A task's hold on the player; when its runtime ends, another one's task may take over.
struct Driven {
    shared: Arc<Shared>,
    /// The player's clock when this task took over.
    base: Duration,
    started: Instant,
}

impl Driven {
    /// The player's clock, which stands still while nobody drives the player.
    fn tick(&self) -> Duration {
        self.base.saturating_add(self.started.elapsed())
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.shared.machine.lock().note(self.tick());
        self.shared.driven.store(false, Ordering::Release);
    }
}

async fn run<S: Stage>(driven: Driven, stage: Weak<S>, stop: CancellationToken) {
    let shared = &driven.shared;
    let Some(mut changed) = stage.upgrade().map(|stage| stage.changes()) else {
        return;
    };
    let mut panics = 0;
    while !stop.is_cancelled() {
        changed.borrow_and_update();
        let Some(now) = stage.upgrade() else {
            return;
        };
        // Whoever was looked at when a turn panicked, which the panic's own message tells, is left
        // alone until it changes; the others are played on (PLAY-6).
        let played = catch_unwind(AssertUnwindSafe(|| turn(shared, &*now, driven.tick())));
        drop(now);
        panics = if played.is_ok() { 0 } else { panics + 1 };
        let next = match played {
            Ok((next, spent)) => {
                take_down(spent);
                next
            }
            Err(_) if panics < PANICS => Next::Again,
            Err(_) => Next::Change,
        };
        let due = match next {
            Next::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Next::At(tick) => driven.started.checked_add(tick.saturating_sub(driven.base)),
            Next::Change => None,
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.poked.notified() => {}
            // The server is gone when nobody can change it any more.
            seen = changed.changed() => if seen.is_err() { return },
            () = wait(due) => {}
        }
    }
}

/// Plays one turn. Answers what is next, and the objects that the turn replaced.
fn turn<S: Stage>(shared: &Shared, stage: &S, tick: Duration) -> (Next, Vec<Arc<Stored>>) {
    let manners = shared.manners.lock().clone();
    let mut machine = shared.machine.lock();
    if shared.reconsider.swap(false, Ordering::AcqRel) {
        machine.reconsider_pods();
    }
    let now = Now {
        wall: stage.now(),
        tick,
    };
    stage.locked(|registry| {
        let next = machine.turn(registry, &manners, now, BUDGET);
        (next, registry.take_spent())
    })
}

/// Drops objects while the player goes on. A paused clock stands still until it is done.
fn take_down(spent: Vec<Arc<Stored>>) {
    if spent.len() >= MANY {
        // Nobody waits for the end of it.
        drop(tokio::task::spawn_blocking(move || drop(spent)));
    }
}

async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
