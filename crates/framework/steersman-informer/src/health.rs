//! Handle: the health of one server, shared by the informers of a cache.

mod machine;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steersman_api::clock::now;
use steersman_api::{Error, ListWatch};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, sleep_until, timeout};

use self::machine::{HealthMachine, NextStep, ServerReadiness, WITHIN};

pub(crate) use self::machine::Pause;

/// The time over which waiting informers spread their requests after an outage, so that they do not come all at once.
const SPREAD: Duration = Duration::from_secs(1);
/// The longest wait of an informer for a permit to list again. Then it lists anyway, in case the holders hang.
const TURN: Duration = Duration::from_secs(30);
const LISTS: usize = 10;

/// The health of one server, shared by the informers of the server: whether the server is away,
/// and how many informers may list again at once. Cheap to clone.
///
/// Give a clone to each informer of the server ([`InformerOptions::health`](crate::InformerOptions::health)). While the
/// server is away, one informer checks its readiness each second; after its return all informers repeat their requests
/// within a second (REFL-9). Failures of one kind alone do not count as an outage.
#[derive(Clone, derive_more::Debug)]
#[debug("ServerHealth({:?})", *state.machine.lock())]
#[must_use]
pub struct ServerHealth {
    state: Arc<HealthState>,
}

struct HealthState {
    machine: Mutex<HealthMachine>,
    /// Wakes waiting informers when the health changes.
    changed: watch::Sender<()>,
    lists: Arc<Semaphore>,
}

impl ServerHealth {
    /// Returns the health of a server. At most `lists` informers, and at least one, list again at the same time.
    pub fn new(lists: usize) -> Self {
        let lists = lists.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            state: Arc::new(HealthState {
                machine: Mutex::default(),
                changed: watch::Sender::new(()),
                lists: Arc::new(Semaphore::new(lists)),
            }),
        }
    }

    /// Records a failure that may be due to an outage. Returns the number of outages that have ended so far.
    pub(crate) fn handle_failure(&self, now: Instant) -> u64 {
        let mut machine = self.state.machine.lock();
        machine.handle_failure(now);
        machine.returns
    }

    pub(crate) fn handle_answer(&self) {
        let returned = self.state.machine.lock().handle_answer();
        if returned {
            self.state.changed.send_replace(());
        }
    }

    /// Waits until an informer may repeat its request, and checks the server's readiness when it is this informer's
    /// turn. `share`, from 0 to 1, is the informer's place in the time over which the requests are spread after the
    /// server's return. Returns whether the server has returned.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, another informer checks the server a little later.
    pub(crate) async fn wait(
        &self,
        pause: &Pause,
        share: f64,
        list_watch: &impl ListWatch,
    ) -> bool {
        let mut changed = self.state.changed.subscribe();
        let mut asked = false;
        loop {
            changed.borrow_and_update();
            let turn = self.state.machine.lock().next_step(pause, now());
            match turn {
                NextStep::Go => return false,
                // The informer that made the successful check repeats its request at once.
                NextStep::Returned if asked => return true,
                NextStep::Returned => {
                    sleep(SPREAD.mul_f64(share.clamp(0.0, 1.0))).await;
                    return true;
                }
                NextStep::Ask => {
                    let answer = match timeout(WITHIN, list_watch.ready()).await {
                        Ok(answer) => server_readiness(answer),
                        Err(_) => ServerReadiness::NoResponse,
                    };
                    asked = true;
                    self.state.machine.lock().handle_ready(answer, now());
                    self.state.changed.send_replace(());
                }
                NextStep::Wait(until) => tokio::select! {
                    biased;
                    () = sleep_until(until.into()) => {}
                    // `self` owns the sender of these changes, so the wait cannot fail.
                    _changed = changed.changed() => {}
                },
            }
        }
    }

    /// Waits for a permit to list again. Returns `None` after 30 s; then the caller lists without a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue for permits.
    pub(crate) async fn list_turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.state.lists).acquire_owned();
        timeout(TURN, turn).await.ok()?.ok()
    }
}

impl Default for ServerHealth {
    fn default() -> Self {
        Self::new(LISTS)
    }
}

fn server_readiness(answer: Option<Result<(), Error>>) -> ServerReadiness {
    match answer {
        None => ServerReadiness::Unsupported,
        Some(Ok(())) => ServerReadiness::Ready,
        // Any refusal but 429 and 5xx shows that the server is up.
        Some(Err(error)) => match error.code() {
            Some(429 | 500..) => ServerReadiness::NotReady,
            Some(_) => ServerReadiness::Ready,
            None => ServerReadiness::NoResponse,
        },
    }
}
