//! Machine: what is wrong at the moment, and for how many requests in a row.

use std::time::Instant;

use crate::options::Failed;
use crate::reflector::step::Problem;
use crate::state::Reason;

/// What is wrong with an informer's requests.
#[derive(Debug, Default)]
pub(crate) struct ProblemTracker {
    problem: Option<Problem>,
    /// Failures since the last success.
    attempts: u32,
}

impl ProblemTracker {
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Requests succeed: whatever went wrong before is over.
    pub(crate) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// A watch stayed open, silent until its end where `silent`. What went wrong before is over; a link that is silent again
    /// and again is counted on.
    pub(crate) fn settle(&mut self, silent: bool) {
        let problem = self.problem.take();
        if !silent && problem.is_none_or(|problem| problem.reason != Reason::Silent) {
            self.attempts = 0;
        }
    }

    /// A list arrived, which proves nothing of watches.
    pub(crate) fn listed(&mut self) {
        self.attempts = 0;
        self.problem
            .take_if(|problem| problem.reason != Reason::ShortWatch);
    }

    /// No request failed; what went wrong before may go on.
    pub(crate) fn forget_attempts(&mut self) {
        self.attempts = 0;
    }

    /// Counts a failure. Returns what is told of it.
    pub(crate) fn failed(&mut self, reason: Reason, message: &str) -> Failed {
        self.attempts = self.attempts.saturating_add(1);
        Failed {
            reason,
            message: message.to_owned(),
            attempt: self.attempts,
        }
    }

    pub(crate) fn degrade(&mut self, reason: Reason, message: &str, now: Instant) {
        let same = self.problem.as_ref().filter(|p| p.reason == reason);
        let since = same.map_or(now, |problem| problem.since);
        self.problem = Some(Problem {
            reason,
            message: message.to_owned(),
            since,
        });
    }
}
