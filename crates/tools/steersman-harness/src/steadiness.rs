//! Machine: decides whether an operator is steady, from samples of its progress.

use std::time::Duration;

use crate::progress::ControllerProgress;

/// A sample of the operator and its server at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) progress: ControllerProgress,
    /// The revision of the embedded server, which each change of an object increments.
    pub(crate) revision: Option<u64>,
}

/// Decides whether an operator is steady during one wait.
#[derive(Debug)]
pub(crate) struct Steadiness {
    controllers: usize,
    most: u64,
    /// The time without a change after which an operator is steady.
    quiet: Duration,
    /// The number of reconciles before the wait, which do not count.
    before: u64,
    /// The last sample that differed from its predecessor, and its time.
    changed: Option<(Sample, Duration)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SteadinessVerdict {
    /// The operator is not steady. The text describes its state.
    Wait(String),
    /// The operator is steady. The number is that of the reconciles during the wait.
    Steady(u64),
    TooMany(u64),
}

impl Steadiness {
    pub(crate) fn new(controllers: usize, most: u64, quiet: Duration, before: u64) -> Self {
        Self {
            controllers,
            most,
            quiet,
            before,
            changed: None,
        }
    }

    /// Adds a sample taken at `now`, which counts from the start of the wait.
    pub(crate) fn observe(&mut self, now: Duration, sample: Sample) -> SteadinessVerdict {
        let ControllerProgress {
            controllers,
            reconciles,
            ready,
            running,
        } = sample.progress;
        let ended = reconciles.saturating_sub(self.before);
        if ended > self.most {
            return SteadinessVerdict::TooMany(ended);
        }
        let since = match self.changed {
            Some((last, since)) if last == sample => since,
            _ => {
                self.changed = Some((sample, now));
                now
            }
        };
        let is_started = controllers >= self.controllers;
        // HARNESS-1: the operator is idle, and has been quiet for long enough.
        if is_started && sample.progress.is_idle() && now.saturating_sub(since) >= self.quiet {
            return SteadinessVerdict::Steady(ended);
        }
        SteadinessVerdict::Wait(format!(
            "{controllers} of {} controllers started, {ended} reconciles ended, {running} in progress, \
             {ready} requests ready; the last change was {:?} ago",
            self.controllers,
            now.saturating_sub(since)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(1);

    fn sample(reconciles: u64, ready: u64, revision: u64) -> Sample {
        let progress = ControllerProgress {
            controllers: 1,
            reconciles,
            ready,
            running: 0,
        };
        Sample {
            progress,
            revision: Some(revision),
        }
    }

    fn begin(most: u64) -> Steadiness {
        Steadiness::new(1, most, QUIET, 10)
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn waits(verdict: &SteadinessVerdict) -> bool {
        matches!(verdict, SteadinessVerdict::Wait(_))
    }

    /// HARNESS-1: a wait for a steady operator ends when no reconcile runs and nothing is stored.
    #[test]
    fn an_operator_is_steady_after_a_time_without_a_change() {
        let mut steadiness = begin(3);
        assert!(waits(&steadiness.observe(at(0), sample(10, 0, 5))));
        assert!(waits(&steadiness.observe(at(900), sample(12, 0, 5))));
        assert!(waits(&steadiness.observe(at(1_800), sample(12, 0, 5))));
        let steady = steadiness.observe(at(1_900), sample(12, 0, 5));
        assert_eq!(steady, SteadinessVerdict::Steady(2));
    }

    /// HARNESS-1: a wait for a steady operator ends when no reconcile runs and nothing is stored.
    #[test]
    fn a_change_on_the_server_or_a_waiting_request_prolongs_the_wait() {
        let mut steadiness = begin(3);
        assert!(waits(&steadiness.observe(at(0), sample(10, 0, 5))));
        assert!(waits(&steadiness.observe(at(1_000), sample(10, 0, 6))));
        assert!(waits(&steadiness.observe(at(1_500), sample(10, 1, 6))));
        assert!(waits(&steadiness.observe(at(5_000), sample(10, 1, 6))));
        assert!(waits(&steadiness.observe(at(5_100), sample(10, 0, 6))));
        let steady = steadiness.observe(at(6_100), sample(10, 0, 6));
        assert_eq!(steady, SteadinessVerdict::Steady(0));
    }

    /// HARNESS-1: a wait for a steady operator ends when no reconcile runs and nothing is stored.
    #[test]
    fn more_reconciles_than_permitted_end_the_wait() {
        let mut steadiness = begin(3);
        assert!(waits(&steadiness.observe(at(0), sample(13, 4, 5))));
        let many = steadiness.observe(at(1), sample(14, 3, 5));
        assert_eq!(many, SteadinessVerdict::TooMany(4));
    }

    #[test]
    fn an_operator_that_has_not_started_is_not_steady() {
        let mut steadiness = Steadiness::new(2, 3, QUIET, 0);
        assert!(waits(&steadiness.observe(at(0), sample(0, 0, 5))));
        assert!(waits(&steadiness.observe(at(60_000), sample(0, 0, 5))));
    }
}
