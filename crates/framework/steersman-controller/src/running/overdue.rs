//! Machine: finds reconciles that take too long.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::request::RequestKey;

/// The time after which a reconcile takes too long, if the controller has no deadline (CTRL-25).
const WITHOUT_DEADLINE: Duration = Duration::from_secs(600);

/// The time between two searches for reconciles that take too long.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

/// Finds reconciles of one controller that take too long, and remembers them, so that each is reported once.
#[derive(Debug)]
pub(crate) struct OverdueReconciles<R> {
    limit: Duration,
    /// The reconciles that the last search found, as request and start time.
    reported: HashSet<(R, Instant)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overdue<R> {
    /// The number of running reconciles that take too long.
    pub(crate) count: usize,
    /// The reconciles that no earlier search has found: each request, with the time since the reconcile began.
    pub(crate) new: Vec<(R, Duration)>,
}

impl<R: RequestKey> OverdueReconciles<R> {
    /// Makes the state before the first search. `longest` is the deadline of a reconcile plus its grace; a reconcile
    /// takes too long if it takes more than twice this time.
    pub(crate) fn new(longest: Option<Duration>) -> Self {
        Self {
            limit: longest.map_or(WITHOUT_DEADLINE, |longest| longest.saturating_mul(2)),
            reported: HashSet::new(),
        }
    }

    pub(crate) fn look(&mut self, held: Vec<(R, Instant)>, now: Instant) -> Overdue<R> {
        let taken = |since: &Instant| now.saturating_duration_since(*since);
        let mut late = held;
        late.retain(|(_, since)| taken(since) > self.limit);
        let new = late
            .iter()
            .filter(|reconcile| !self.reported.contains(*reconcile))
            .map(|(request, since)| (request.clone(), taken(since)))
            .collect();
        let count = late.len();
        self.reported = late.into_iter().collect();
        Overdue { count, new }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CTRL-25: a reconcile that takes too long is counted at each search, and named by one warning.
    #[test]
    fn each_reconcile_that_takes_too_long_is_found_once() {
        let start = tokio::time::Instant::now().into_std();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut overdue = OverdueReconciles::new(Some(Duration::from_secs(30)));
        let mut look = |held: &[(&'static str, u64)], now: u64| {
            let held = held.iter().map(|(key, since)| (*key, at(*since))).collect();
            let found = overdue.look(held, at(now));
            let new: Vec<(&str, u64)> = found
                .new
                .iter()
                .map(|(key, taken)| (*key, taken.as_secs()))
                .collect();
            (found.count, new)
        };
        assert_eq!(look(&[("a", 0), ("b", 1)], 60), (0, vec![]));
        assert_eq!(look(&[("a", 0), ("b", 1)], 61), (1, vec![("a", 61)]));
        assert_eq!(look(&[("a", 0), ("b", 1)], 121), (2, vec![("b", 120)]));
        assert_eq!(look(&[("b", 122)], 182), (0, vec![]));
        assert_eq!(
            look(&[("b", 122)], 183),
            (1, vec![("b", 61)]),
            "a later run of b"
        );
        let mut patient = OverdueReconciles::new(None);
        assert_eq!(patient.look(vec![("a", start)], at(600)).count, 0);
        assert_eq!(patient.look(vec![("a", start)], at(601)).count, 1);
        let mut endless = OverdueReconciles::new(Some(Duration::MAX));
        assert_eq!(endless.look(vec![("a", start)], at(1_000_000)).count, 0);
    }
}
