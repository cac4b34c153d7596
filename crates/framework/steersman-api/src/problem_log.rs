//! Machine: decides when a repeated problem is logged again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The default time between two warnings of one lasting problem.
const REMINDER: Duration = Duration::from_secs(3600);

/// The present problems of a loop, by the name of the affected object.
#[derive(Debug)]
pub struct ProblemLog {
    reminder: Duration,
    present: BTreeMap<String, (String, Instant)>,
}

impl Default for ProblemLog {
    /// Repeats the warning of a lasting problem once an hour.
    fn default() -> Self {
        Self::repeating_after(REMINDER)
    }
}

impl ProblemLog {
    /// Repeats the warning of a lasting problem after this time.
    pub fn repeating_after(reminder: Duration) -> Self {
        Self {
            reminder,
            present: BTreeMap::new(),
        }
    }

    /// Records a problem of an object. Returns whether to log the problem: it is new, differs from the previous
    /// problem, or was logged longer ago than the reminder time.
    pub fn is_due(&mut self, object: &str, problem: &str, now: Instant) -> bool {
        let is_repeated = self.present.get(object).is_some_and(|(logged, at)| {
            logged == problem && now.saturating_duration_since(*at) < self.reminder
        });
        if !is_repeated {
            let problem = (problem.to_owned(), now);
            self.present.insert(object.to_owned(), problem);
        }
        !is_repeated
    }

    /// Records that an object has no problem any more. Returns whether it had one.
    pub fn resolve(&mut self, object: &str) -> bool {
        self.present.remove(object).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_logged_when_it_is_new_and_once_an_hour() {
        let start = tokio::time::Instant::now().into_std();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut log = ProblemLog::default();
        assert!(log.is_due("a", "forbidden", at(0)));
        assert!(!log.is_due("a", "forbidden", at(3599)));
        assert!(log.is_due("a", "forbidden", at(3600)));
        assert!(log.is_due("b", "forbidden", at(3601)));
        assert!(!log.is_due("a", "forbidden", at(3602)));
        assert!(log.is_due("a", "no answer", at(3603)));
        assert!(log.resolve("a") && !log.resolve("a"));
        assert!(log.is_due("a", "no answer", at(3604)));
    }

    #[test]
    fn a_problem_may_be_repeated_more_often() {
        let start = tokio::time::Instant::now().into_std();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut log = ProblemLog::repeating_after(Duration::from_secs(60));
        let mut due = |problem, seconds| log.is_due("lease", problem, at(seconds));
        assert!(due("forbidden", 0));
        assert!(!due("forbidden", 2) && !due("forbidden", 59));
        assert!(due("forbidden", 60));
        assert!(!due("forbidden", 62));
        assert!(due("no response in time", 64));
        assert!(due("forbidden", 66));
    }
}
