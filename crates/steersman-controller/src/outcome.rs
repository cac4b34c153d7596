//! Machine: what the end of a reconcile means for its request.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::action::{Action, Requeue};

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Success(Action),
    Failed { terminal: bool },
    Panicked,
    TimedOut,
}

/// What happens to the request's ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Forget,
    After(Duration),
    Backoff,
    Settle,
}

/// The verdict, and the `result` label that the metrics give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
}

/// How the metrics name the result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Success,
    Error,
    RequeueAfter,
}

/// Decides what follows. `now` is asked for only where a time of day was given.
pub(crate) fn outcome(ending: Ending, now: impl FnOnce() -> Timestamp) -> Outcome {
    let (verdict, label) = match ending {
        Ending::Success(Action { requeue: None }) => (Verdict::Forget, Label::Success),
        Ending::Success(Action {
            requeue: Some(requeue),
        }) => {
            let delay = match requeue {
                Requeue::After(delay) => delay,
                // A negative span is a time that has passed.
                Requeue::At(time) => {
                    Duration::try_from(time.duration_since(now())).unwrap_or(Duration::ZERO)
                }
            };
            (Verdict::After(delay), Label::RequeueAfter)
        }
        // A terminal error leaves the count of failures alone: it is no success, and nothing retries.
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
