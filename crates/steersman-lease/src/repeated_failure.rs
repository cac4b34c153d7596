//! Machine: decides which of many equal failures is worth a warning.

use std::time::{Duration, Instant};

/// The pause between two warnings of one error.
const PAUSE: Duration = Duration::from_secs(60);

/// The last failure that was reported as a warning.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailure(Option<(String, Instant)>);

impl RepeatedFailure {
    /// Records a failure. Returns whether it is to be reported: its error is new, or was reported a minute ago. A success
    /// in between changes nothing: a candidate may read the Lease, and not be permitted to write it.
    pub(crate) fn is_due(&mut self, error: &str, now: Instant) -> bool {
        let is_repeated = self.0.as_ref().is_some_and(|(reported, at)| {
            reported == error && now.saturating_duration_since(*at) < PAUSE
        });
        if !is_repeated {
            self.0 = Some((error.to_owned(), now));
        }
        !is_repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_when_it_is_new_and_once_a_minute() {
        let start = tokio::time::Instant::now().into_std();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut failure = RepeatedFailure::default();
        let mut due = |error, seconds| failure.is_due(error, at(seconds));
        assert!(due("forbidden", 0));
        assert!(!due("forbidden", 2) && !due("forbidden", 59));
        assert!(due("forbidden", 60));
        assert!(!due("forbidden", 62));
        assert!(due("no response in time", 64));
        assert!(due("forbidden", 66));
    }
}
