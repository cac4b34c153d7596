//! Driver: keeps the workers back until every watch has handed over its initial set.

use std::future::pending;
use std::time::Duration;

use futures::channel::oneshot;
use steersman_cache::Unsynced;
use steersman_object::Kind;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use crate::error::ControllerError;
use crate::status::ControllerStatus;

/// How often the log says what a controller waits for.
const REMINDER: Duration = Duration::from_secs(60);

/// The initial sets that are not in the queue yet.
pub(crate) struct Gate {
    pub(crate) status: ControllerStatus,
    /// One entry per subscription, in the order of the watches.
    pub(crate) initial: Vec<(Kind, oneshot::Receiver<()>)>,
    /// With a limit the wait ends with an error; without one it lasts until the kinds are there.
    pub(crate) limit: Option<Duration>,
}

impl Gate {
    /// Waits until every initial set is in the queue (CTRL-1), and says each minute for what (CTRL-7).
    pub(crate) async fn passed(self) -> Result<(), ControllerError> {
        let start = Instant::now();
        let limit = self.limit.unwrap_or(Duration::MAX);
        // The longest duration reaches past the end of the clock: no limit.
        let deadline = start.checked_add(limit);
        let mut reminder = interval_at(start + REMINDER, REMINDER);
        reminder.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reminded = false;
        for (kind, mut synced) in self.initial {
            loop {
                tokio::select! {
                    biased;
                    arrived = &mut synced => match arrived {
                        Ok(()) => break,
                        // The pump ended, which is reported from there.
                        Err(_) => pending().await,
                    },
                    () = at(deadline) => return Err(ControllerError::Sync {
                        controller: self.status.controller().to_owned(),
                        reason: told(&self.status.waiting_for(), &kind),
                        kind,
                        timeout: limit,
                    }),
                    _ = reminder.tick() => {
                        reminded = true;
                        remind(&self.status, &kind);
                    }
                }
            }
        }
        if reminded {
            tracing::info!(
                controller = self.status.controller(),
                "what the controller waited for has synced: it starts"
            );
        }
        Ok(())
    }
}

fn remind(status: &ControllerStatus, kind: &Kind) {
    tracing::warn!(
        controller = status.controller(),
        // Last and without quotes: it may hold a rule to copy.
        waiting_for = %told(&status.waiting_for(), kind),
        "the controller waits for the first sync of what it watches, and starts by itself after that; \
         other controllers go on"
    );
}

// What is known about the kinds that have not synced.
fn told(waiting_for: &[Unsynced], first: &Kind) -> String {
    if waiting_for.is_empty() {
        return format!(
            "the cache has {first}, and its objects have not all reached the controller"
        );
    }
    let known: Vec<String> = waiting_for.iter().map(ToString::to_string).collect();
    known.join("; ")
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
