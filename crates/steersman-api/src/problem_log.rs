//! Machine: decides which of many equal problems is worth a warning.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The pause between two warnings of one lasting problem.
const REMINDER: Duration = Duration::from_secs(3600);

/// The present problems of a loop, by the object that has the problem.
#[derive(Debug, Default)]
pub struct ProblemLog(BTreeMap<String, (String, Instant)>);

impl ProblemLog {
    /// Records a problem of an object. Returns whether it is to be logged: it is new, another one than before, or has
    /// lasted for an hour since it was logged.
    pub fn is_due(&mut self, object: &str, problem: &str, now: Instant) -> bool {
        let is_repeated = self.0.get(object).is_some_and(|(logged, at)| {
            logged == problem && now.saturating_duration_since(*at) < REMINDER
        });
        if !is_repeated {
            self.0.insert(object.to_owned(), (problem.to_owned(), now));
        }
        !is_repeated
    }

    /// Records that an object has no problem. Returns whether it had one.
    pub fn resolve(&mut self, object: &str) -> bool {
        self.0.remove(object).is_some()
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
}
