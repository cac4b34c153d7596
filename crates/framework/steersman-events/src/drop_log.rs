//! Machine: decides when dropped events are logged: the first per reason at once, then one line per hour.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::drop_reason::DropReason;

/// The time between two log lines with the same reason.
const PERIOD: Duration = Duration::from_secs(3600);

/// The dropped events that were not logged, by reason.
#[derive(Debug, Default)]
pub(crate) struct DropLog {
    reasons: HashMap<DropReason, LoggedDrops>,
}

#[derive(Debug)]
struct LoggedDrops {
    logged: Instant,
    /// The number of events dropped since the last log line.
    since: u64,
}

impl DropLog {
    /// Counts dropped events. Returns the number of events for a log line, if a line is due.
    pub(crate) fn dropped(&mut self, reason: DropReason, events: u64, now: Instant) -> Option<u64> {
        let Some(drops) = self.reasons.get_mut(&reason) else {
            let logged = LoggedDrops {
                logged: now,
                since: 0,
            };
            self.reasons.insert(reason, logged);
            return Some(events);
        };
        drops.since += events;
        if now < drops.logged + PERIOD {
            return None;
        }
        drops.logged = now;
        Some(std::mem::take(&mut drops.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVENT-2: the number of waiting writes is bounded, and each lost event is counted.
    #[test]
    fn a_reason_is_logged_at_once_and_then_once_per_hour_with_the_number_of_events() {
        let start = tokio::time::Instant::now().into_std();
        let minute = Duration::from_secs(60);
        let mut log = DropLog::default();
        assert_eq!(log.dropped(DropReason::Forbidden, 2, start), Some(2));
        assert_eq!(log.dropped(DropReason::Forbidden, 3, start), None);
        assert_eq!(log.dropped(DropReason::QueueFull, 1, start), Some(1));
        assert_eq!(
            log.dropped(DropReason::Forbidden, 1, start + minute * 59),
            None
        );
        assert_eq!(
            log.dropped(DropReason::Forbidden, 1, start + minute * 60),
            Some(5)
        );
        assert_eq!(
            log.dropped(DropReason::Forbidden, 1, start + minute * 61),
            None
        );
    }
}
