//! Machine: decides from the end of a reconcile whether and when its request runs again.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_workqueue::{Priority, Verdict};

use crate::action::{Action, Requeue};
use crate::error::Error;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunLimits {
    pub(crate) is_last: bool,
    /// The longest time until the next run, as `at_least_every` sets it; `None` is no limit.
    pub(crate) at_least_every: Option<Duration>,
}

/// The result of the decision about an ended reconcile: the verdict for the queue, and the label for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReconcileOutcome {
    pub(crate) verdict: Verdict,
    pub(crate) label: Label,
    /// The priority that the reconciler chose for the next run; `None` keeps the priority of this run.
    pub(crate) priority: Option<Priority>,
    pub(crate) gave_up: bool,
}

/// The `result` label of a reconcile in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Success,
    Error,
    RequeueAfter,
}

impl Label {
    /// Returns the label as the metrics have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// Decides whether and when a request runs again. `now` is called only if the action names a time of day.
pub(crate) fn outcome(
    result: &Result<Action, Error>,
    limits: RunLimits,
    now: impl FnOnce() -> Timestamp,
) -> ReconcileOutcome {
    let (verdict, label) = match result {
        Ok(action) => success(action.requeue, now),
        // No retry follows. `Settle` keeps the number of failures, because only a success or the last retry resets it.
        Err(error) if error.is_terminal() => (Verdict::Settle, Label::Error),
        // CTRL-21: a request is given up when its last retry fails, and the next event begins with new retries.
        Err(_) if limits.is_last => (Verdict::Forget, Label::Error),
        Err(_) => (Verdict::Backoff, Label::Error),
    };

    // CTRL-22: with an interval, a request that would run later or not at all runs again after the interval.
    let verdict = match (verdict, limits.at_least_every) {
        (Verdict::Forget, Some(most)) => Verdict::After(most),
        (Verdict::Settle, Some(most)) => Verdict::SettleAfter(most),
        (Verdict::After(delay), Some(most)) => Verdict::After(delay.min(most)),
        (verdict, _) => verdict,
    };
    let wants_retry = result.as_ref().is_err_and(|error| !error.is_terminal());
    ReconcileOutcome {
        verdict,
        label,
        priority: result.as_ref().ok().and_then(|action| action.priority),
        gave_up: wants_retry && limits.is_last,
    }
}

fn success(requeue: Option<Requeue>, now: impl FnOnce() -> Timestamp) -> (Verdict, Label) {
    let delay = match requeue {
        None => return (Verdict::Forget, Label::Success),
        Some(Requeue::After(delay)) => delay,
        // A time in the past gives a negative span, which no `Duration` can hold: the request runs again at once.
        Some(Requeue::At(time)) => {
            Duration::try_from(time.duration_since(now())).unwrap_or(Duration::ZERO)
        }
    };
    (Verdict::After(delay), Label::RequeueAfter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NoResult;

    fn failed() -> Result<Action, Error> {
        Err(Error::msg("not yet"))
    }

    fn terminal() -> Result<Action, Error> {
        Err(Error::msg("never").terminal())
    }

    fn panicked() -> Result<Action, Error> {
        Err(NoResult::Panicked("on purpose".to_owned()).into())
    }

    fn timed_out() -> Result<Action, Error> {
        Err(NoResult::TimedOut.into())
    }

    #[test]
    fn every_ending_has_its_verdict() {
        let now = Timestamp::from_second(1_000).unwrap();
        let at = |second| Ok(Action::requeue_at(Timestamp::from_second(second).unwrap()));
        let seconds = Duration::from_secs;
        let table = [
            (Ok(Action::done()), Verdict::Forget, Label::Success),
            (
                Ok(Action::requeue_after(seconds(9))),
                Verdict::After(seconds(9)),
                Label::RequeueAfter,
            ),
            (
                Ok(Action::requeue_after(Duration::MAX)),
                Verdict::After(Duration::MAX),
                Label::RequeueAfter,
            ),
            (at(1_060), Verdict::After(seconds(60)), Label::RequeueAfter),
            (at(940), Verdict::After(Duration::ZERO), Label::RequeueAfter),
            (failed(), Verdict::Backoff, Label::Error),
            (terminal(), Verdict::Settle, Label::Error),
            (panicked(), Verdict::Backoff, Label::Error),
            (timed_out(), Verdict::Backoff, Label::Error),
        ];
        for (result, verdict, label) in table {
            let expected = ReconcileOutcome {
                verdict,
                label,
                priority: None,
                gave_up: false,
            };
            let ended = outcome(&result, RunLimits::default(), || now);
            assert_eq!(ended, expected, "{result:?}");
        }
        let low = Action::done().priority(Priority::LOW);
        let ended = outcome(&Ok(low), RunLimits::default(), || now);
        assert_eq!(ended.priority, Some(Priority::LOW));
    }

    // CTRL-21: a request is given up after its last retry fails, and has all its retries again at the next event.
    #[test]
    fn the_failure_of_the_last_retry_forgets_the_failures() {
        let last = RunLimits {
            is_last: true,
            at_least_every: None,
        };
        let table = [
            (Ok(Action::done()), Verdict::Forget, false),
            (terminal(), Verdict::Settle, false),
            (failed(), Verdict::Forget, true),
            (panicked(), Verdict::Forget, true),
            (timed_out(), Verdict::Forget, true),
        ];
        for (result, verdict, gave_up) in table {
            let ended = outcome(&result, last, || Timestamp::UNIX_EPOCH);
            assert_eq!(
                (ended.verdict, ended.gave_up),
                (verdict, gave_up),
                "{result:?}"
            );
        }
    }

    // CTRL-22: with an interval, a request runs again within the interval, unless it waits for a retry.
    #[test]
    fn an_interval_shortens_every_delay_except_that_of_a_retry() {
        let seconds = Duration::from_secs;
        let most = RunLimits {
            is_last: false,
            at_least_every: Some(seconds(60)),
        };
        let after = |delay| Ok(Action::requeue_after(seconds(delay)));
        let table = [
            (Ok(Action::done()), Verdict::After(seconds(60))),
            (after(59), Verdict::After(seconds(59))),
            (after(61), Verdict::After(seconds(60))),
            (terminal(), Verdict::SettleAfter(seconds(60))),
            (failed(), Verdict::Backoff),
        ];
        for (result, verdict) in table {
            let ended = outcome(&result, most, || Timestamp::UNIX_EPOCH);
            assert_eq!(ended.verdict, verdict, "{result:?}");
        }
        let last = RunLimits {
            is_last: true,
            ..most
        };
        let ended = outcome(&panicked(), last, || Timestamp::UNIX_EPOCH);
        assert_eq!(
            (ended.verdict, ended.label),
            (Verdict::After(seconds(60)), Label::Error)
        );
    }
}
