//! Machine: how the end of a reconcile ends the ticket of its request.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_workqueue::Verdict;

use crate::action::{Action, Requeue};

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Success(Action),
    Failed { terminal: bool },
    Panicked,
    TimedOut,
}

/// How a ticket ends, and the `result` label in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
}

/// The `result` label of a reconcile in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Success,
    Error,
    RequeueAfter,
}

/// Decides what follows a reconcile. `now` is called only if the action names a time of day.
pub(crate) fn outcome(ending: Ending, now: impl FnOnce() -> Timestamp) -> Outcome {
    let (verdict, label) = match ending {
        Ending::Success(Action { requeue: None }) => (Verdict::Forget, Label::Success),
        Ending::Success(Action {
            requeue: Some(requeue),
        }) => {
            let delay = match requeue {
                Requeue::After(delay) => delay,
                // A negative span is a time in the past.
                Requeue::At(time) => {
                    Duration::try_from(time.duration_since(now())).unwrap_or(Duration::ZERO)
                }
            };
            (Verdict::After(delay), Label::RequeueAfter)
        }
        // A terminal error is no success, so the number of failures stays, and no retry follows.
        Ending::Failed { terminal: true } => (Verdict::Settle, Label::Error),
        Ending::Failed { terminal: false } | Ending::Panicked | Ending::TimedOut => {
            (Verdict::Backoff, Label::Error)
        }
    };
    Outcome { verdict, label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_its_verdict() {
        let now = Timestamp::from_second(1_000).unwrap();
        let at =
            |second| Ending::Success(Action::requeue_at(Timestamp::from_second(second).unwrap()));
        let seconds = Duration::from_secs;
        let table = [
            (
                Ending::Success(Action::done()),
                Verdict::Forget,
                Label::Success,
            ),
            (
                Ending::Success(Action::requeue_after(seconds(9))),
                Verdict::After(seconds(9)),
                Label::RequeueAfter,
            ),
            (
                Ending::Success(Action::requeue_after(Duration::MAX)),
                Verdict::After(Duration::MAX),
                Label::RequeueAfter,
            ),
            (at(1_060), Verdict::After(seconds(60)), Label::RequeueAfter),
            (at(940), Verdict::After(Duration::ZERO), Label::RequeueAfter),
            (
                Ending::Failed { terminal: false },
                Verdict::Backoff,
                Label::Error,
            ),
            (
                Ending::Failed { terminal: true },
                Verdict::Settle,
                Label::Error,
            ),
            (Ending::Panicked, Verdict::Backoff, Label::Error),
            (Ending::TimedOut, Verdict::Backoff, Label::Error),
        ];
        for (ending, verdict, label) in table {
            assert_eq!(
                outcome(ending, || now),
                Outcome { verdict, label },
                "{ending:?}"
            );
        }
    }
}
