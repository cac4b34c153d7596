//! Driver: the limit of reconciles that run at once, shared by the controllers of a process.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::PermitMetrics;

mod turns;

use self::turns::{Turns, UserNumber, WaiterNumber};

/// The limit of reconciles that run at once over several controllers. Cheap to clone; clones share one limit.
///
/// A worker waits for a permit after a request of its controller is ready and before it takes the request from the
/// queue, so that the queue goes on merging and sorting meanwhile. While permits are short, the controllers take turns:
/// each waiting controller gets one permit before another gets its second (CTRL-10).
///
/// [`ControllerDefaults::reconcile_limit`](crate::ControllerDefaults::reconcile_limit) gives a limit to the
/// controllers of a manager; several managers of one process may share it. A reconcile must not wait for another
/// reconcile, because that one may be waiting for a permit: if all reconciles with permits do so, no reconcile ends.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use steersman_controller::ReconcileLimit;
///
/// let limit = ReconcileLimit::new(NonZeroUsize::new(32).unwrap());
/// assert_eq!((limit.permits(), limit.in_use()), (32, 0));
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("ReconcileLimit {{ permits: {:?}, in_use: {:?} }}", self.permits(), self.in_use())]
#[must_use = "a limit does nothing until controllers are started with it"]
pub struct ReconcileLimit {
    shared: Arc<LimitShared>,
}

struct LimitShared {
    permits: NonZeroUsize,
    state: Mutex<LimitState>,
}

struct LimitState {
    turns: Turns,
    /// For each waiting worker, by the number of its wait, the channel that wakes the worker when it gets a permit.
    waiters: HashMap<WaiterNumber, oneshot::Sender<()>>,
}

/// A controller that takes permits from a [`ReconcileLimit`]. All clones take permits for the same controller.
#[derive(Clone)]
pub(crate) struct LimitUser {
    limit: ReconcileLimit,
    number: UserNumber,
    metrics: PermitMetrics,
}

/// The right to run one reconcile. Dropping the permit returns it to the limit.
#[must_use = "dropping a permit returns it"]
pub(crate) struct Permit {
    shared: Arc<LimitShared>,
    waited: Duration,
}

/// A worker that waits for a permit. Dropping the value ends the wait.
struct Waiter<'a> {
    user: &'a LimitUser,
    number: WaiterNumber,
}

// === impl ReconcileLimit ===

impl ReconcileLimit {
    /// Makes a limit of `permits` reconciles that run at once.
    pub fn new(permits: NonZeroUsize) -> Self {
        let state = LimitState {
            turns: Turns::new(permits.get()),
            waiters: HashMap::new(),
        };
        Self {
            shared: Arc::new(LimitShared {
                permits,
                state: Mutex::new(state),
            }),
        }
    }

    /// Returns the number of reconciles that may run at once.
    pub fn permits(&self) -> usize {
        self.shared.permits.get()
    }

    /// Returns the number of permits in use: one for each running reconcile of the controllers with this limit.
    pub fn in_use(&self) -> usize {
        let free = self.shared.state.lock().turns.free;
        self.permits().saturating_sub(free)
    }

    pub(crate) fn user(&self, metrics: PermitMetrics) -> LimitUser {
        let permits = i64::try_from(self.permits()).unwrap_or(i64::MAX);
        metrics.limit.set(permits);
        LimitUser {
            number: self.shared.state.lock().turns.add_user(),
            limit: self.clone(),
            metrics,
        }
    }
}

// === impl LimitUser ===

impl LimitUser {
    /// Returns whether every permit is in use, so that free workers have to wait.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.limit.in_use() >= self.limit.permits()
    }

    /// Waits for the permit to run one reconcile.
    ///
    /// Cancel safe: a dropped future stops waiting, and returns a permit that was granted to it meanwhile.
    pub(crate) async fn permit(&self) -> Permit {
        let shared = &self.limit.shared;
        let (woken, waiter) = {
            let mut state = shared.state.lock();
            let Some(number) = state.turns.handle_ask(self.number) else {
                drop(state);
                self.metrics.waited(Duration::ZERO);
                return Permit::new(shared, Duration::ZERO);
            };
            let (wake, woken) = oneshot::channel();
            state.waiters.insert(number, wake);
            (woken, Waiter { user: self, number })
        };
        self.metrics.waiting.inc();
        let start = Instant::now();
        // Receiving cannot fail: `waiters` holds the sender until the permit is granted.
        let _ = woken.await;
        let waited = start.elapsed();
        self.metrics.waited(waited);
        // `granted` turns the waiter into a `Permit` without dropping the waiter: the drop would return the granted
        // permit.
        waiter.granted(waited)
    }
}

// === impl Waiter ===

impl Waiter<'_> {
    fn granted(self, waited: Duration) -> Permit {
        let permit = Permit::new(&self.user.limit.shared, waited);
        self.user.metrics.waiting.dec();
        std::mem::forget(self);
        permit
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.user.metrics.waiting.dec();
        let shared = &self.user.limit.shared;
        let left = {
            let mut state = shared.state.lock();
            state.waiters.remove(&self.number);
            state.turns.handle_leave(self.user.number, self.number)
        };
        if !left {
            drop(Permit::new(shared, Duration::ZERO));
        }
    }
}

// === impl Permit ===

impl Permit {
    fn new(shared: &Arc<LimitShared>, waited: Duration) -> Self {
        Self {
            shared: Arc::clone(shared),
            waited,
        }
    }

    /// Returns the time that the worker waited for the permit.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let next = state.turns.handle_return();
        let wake = next.and_then(|number| state.waiters.remove(&number));
        drop(state);
        // The waiting worker is woken outside the lock. If its future is dropped at this moment, the drop of its
        // `Waiter` returns the permit.
        if let Some(wake) = wake {
            let _ = wake.send(());
        }
    }
}

#[cfg(test)]
mod tests;
