//! Driver: waits until the runnables of a group are ready.

use std::time::Instant;

use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::reminders::{ReminderLevel, Reminders};

/// The runnables of a group that report when they are ready.
#[derive(Debug)]
pub(crate) struct GroupReadiness {
    /// The name of each runnable, with a token that is cancelled when it is ready or has ended.
    awaited: Vec<(String, CancellationToken)>,
    reminders: Reminders,
}

impl GroupReadiness {
    pub(crate) fn new(awaited: Vec<(String, CancellationToken)>, now: Instant) -> Self {
        Self {
            awaited,
            reminders: Reminders::new(now),
        }
    }

    /// Waits until all runnables of the group are ready. The log names those that are not (MGR-4). Cancel safe.
    pub(crate) async fn reached(&mut self) {
        for (_, ready) in &self.awaited {
            loop {
                tokio::select! {
                    biased;
                    () = ready.cancelled() => break,
                    () = sleep_until(self.reminders.next().into()) => {
                        let now = tokio::time::Instant::now().into_std();
                        if let Some(level) = self.reminders.due(now) {
                            remind(&self.awaited, level);
                        }
                    }
                }
            }
        }
    }
}

fn remind(awaited: &[(String, CancellationToken)], level: ReminderLevel) {
    let waiting = awaited.iter().filter(|(_, ready)| !ready.is_cancelled());
    let names: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
    let waiting_for = names.join(", ");
    match level {
        ReminderLevel::Warning => warn!(
            waiting_for,
            "later groups wait until these runnables are ready; further reminders are logged as INFO, \
             ever more rarely"
        ),
        ReminderLevel::Info => info!(
            waiting_for,
            "later groups wait until these runnables are ready"
        ),
    }
}
