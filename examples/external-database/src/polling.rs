//! Words: when the operator looks at the service again, which sends no events.

use std::time::Duration;

use steersman::Action;

/// The interval at which the operator looks at each database of the service.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    every: Duration,
}

impl Polling {
    /// Looks at each database at this interval. The operator corrects a change at the service within this time.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self { every: interval }
    }

    /// Returns what follows a reconcile that looked at the service.
    pub fn look_again(self) -> Action {
        Action::requeue_after(self.every)
    }
}
