//! Machine: the present problem of a reflector, and the number of consecutive failures.

use std::time::Instant;

use crate::options::Failed;
use crate::reflector::step::RequestProblem;
use crate::state::Reason;

/// The present problem with an informer's requests.
#[derive(Debug, Default)]
pub(crate) struct ProblemTracker {
    problem: Option<RequestProblem>,
    /// The number of failures since the last success.
    pub(crate) attempts: u32,
}

impl ProblemTracker {
    pub(crate) fn problem(&self) -> Option<&RequestProblem> {
        self.problem.as_ref()
    }

    /// Records that a watch stayed open, which ends the problem. The count of failures is reset unless the watch was
    /// silent, now or before.
    pub(crate) fn settle(&mut self, silent: bool) {
        let problem = self.problem.take();
        if !silent && problem.is_none_or(|problem| problem.reason != Reason::Silent) {
            self.attempts = 0;
        }
    }

    /// Records a page of a list. The list does not prove that watches work, so the problem of short watches stays.
    pub(crate) fn listed(&mut self) {
        self.attempts = 0;
        self.problem
            .take_if(|problem| problem.reason != Reason::ShortWatch);
    }

    /// Counts a failure. Returns its description for the hook of failed requests.
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
        self.problem = Some(RequestProblem {
            reason,
            message: message.to_owned(),
            since,
        });
    }
}
