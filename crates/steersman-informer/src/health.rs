//! Handle: the health of one server, shared by the informers of a connection.

mod machine;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steersman_api::{Error, ListWatch};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, sleep_until, timeout};

use self::machine::{Answer, HealthMachine, Turn, WITHIN};

pub(crate) use self::machine::Pause;

/// The informers that wait for a server's return repeat their requests within this time after it.
const SPREAD: Duration = Duration::from_secs(1);
/// How long an informer waits for its turn to list again; a list that hangs keeps no other back for good.
const TURN: Duration = Duration::from_secs(30);
/// The bound on concurrent lists of an informer that shares its server's health with no other.
const LISTS: usize = 10;

/// The health of one server, shared by the informers of a connection: whether the server is away, and how many
/// informers may list again at once. Cheap to clone.
///
/// Give a clone to each informer of a connection ([`InformerOptions::health`](crate::InformerOptions::health)). While
/// the server is away, one of them asks for it each second, and once it answers all of them go on within a second
/// (`REFL-9`). A kind that fails alone is no server that is away.
#[derive(Clone)]
#[must_use]
pub struct ServerHealth {
    state: Arc<HealthState>,
}

struct HealthState {
    machine: Mutex<HealthMachine>,
    /// Marked changed when waiting informers have to look again.
    changed: watch::Sender<()>,
    lists: Arc<Semaphore>,
}

impl ServerHealth {
    /// The health of one server, of which at most `lists` informers list anew at once; at least 1.
    pub fn new(lists: usize) -> Self {
        let lists = lists.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            state: Arc::new(HealthState {
                machine: Mutex::new(HealthMachine::new()),
                changed: watch::Sender::new(()),
                lists: Arc::new(Semaphore::new(lists)),
            }),
        }
    }

    /// Notes a failure that all requests have while a server is away. Returns how often the server has returned.
    pub(crate) fn handle_failure(&self, now: Instant) -> u64 {
        let mut machine = self.state.machine.lock();
        machine.handle_failure(now);
        machine.returns()
    }

    /// Notes that the server answered a request.
    pub(crate) fn handle_answer(&self) {
        let returned = self.state.machine.lock().handle_answer();
        if returned {
            self.state.changed.send_replace(());
        }
    }

    /// Waits until an informer repeats its request, and asks for the server where it is this informer's turn.
    /// `share`, from 0 to 1, says when the informer goes on after the server's return. Returns whether the server has
    /// returned.
    ///
    /// Cancel safe: another informer asks instead, a little later.
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
            let turn = self.state.machine.lock().turn(pause, now());
            match turn {
                Turn::Go => return false,
                // The informer that found the server goes first.
                Turn::Returned if asked => return true,
                Turn::Returned => {
                    sleep(SPREAD.mul_f64(share.clamp(0.0, 1.0))).await;
                    return true;
                }
                Turn::Ask => {
                    let answer = match timeout(WITHIN, list_watch.ready()).await {
                        Ok(answer) => judge(answer),
                        Err(_) => Answer::Nothing,
                    };
                    asked = true;
                    self.state.machine.lock().handle_ready(answer, now());
                    self.state.changed.send_replace(());
                }
                Turn::Wait(until) => tokio::select! {
                    () = sleep_until(until.into()) => {}
                    // The sender lives in the handle itself, so the wait cannot fail.
                    _changed = changed.changed() => {}
                },
            }
        }
    }

    /// Waits for a turn to list again.
    ///
    /// Cancel safe.
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

impl fmt::Debug for ServerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerHealth")
            .field(&*self.state.machine.lock())
            .finish()
    }
}

/// Judges the answer to the request for readiness.
fn judge(answer: Option<Result<(), Error>>) -> Answer {
    match answer {
        None => Answer::Unknown,
        Some(Ok(())) => Answer::Ready,
        // A server that refuses the request is up.
        Some(Err(error)) => match error.code() {
            Some(429 | 500..) => Answer::NotReady,
            Some(_) => Answer::Ready,
            None => Answer::Nothing,
        },
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
