//! Machine: decides when failed exports are logged: once per minute at most.

use std::time::{Duration, Instant};

/// The shortest time between two warnings.
const PAUSE: Duration = Duration::from_secs(60);

/// The failed exports since the last warning.
#[derive(Debug, Default)]
pub(crate) struct ExportFailures {
    warned: Option<Instant>,
    /// The number of spans that were lost since the last warning.
    lost: usize,
    is_failing: bool,
}

impl ExportFailures {
    /// Notes an export that failed with `spans` spans. Returns the number of spans that were lost since the last
    /// warning if a warning is due now.
    pub(crate) fn handle_failure(&mut self, spans: usize, now: Instant) -> Option<usize> {
        self.is_failing = true;
        self.lost = self.lost.saturating_add(spans);
        let is_due = self
            .warned
            .is_none_or(|warned| now.saturating_duration_since(warned) >= PAUSE);
        is_due.then(|| {
            self.warned = Some(now);
            std::mem::take(&mut self.lost)
        })
    }

    /// Notes a successful export. Returns whether the one before it failed.
    pub(crate) fn handle_success(&mut self) -> bool {
        std::mem::take(&mut self.is_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_warning_per_minute_with_all_lost_spans() {
        let start = steersman_api::clock::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut failures = ExportFailures::default();
        assert!(!failures.handle_success());
        assert_eq!(failures.handle_failure(5, start), Some(5));
        assert_eq!(failures.handle_failure(7, after(1)), None);
        assert_eq!(failures.handle_failure(3, after(59)), None);
        assert!(failures.handle_success());
        assert!(!failures.handle_success());
        assert_eq!(failures.handle_failure(1, after(60)), Some(11));
        assert_eq!(failures.handle_failure(1, after(61)), None);
    }
}
