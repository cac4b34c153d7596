//! Machine: the times and log levels of reminders about runnables that are not ready.

use std::time::{Duration, Instant};

/// The pause before the first reminder. Each later pause is twice as long as the previous one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The reminders of one wait. The first reminder is a warning; later ones have a lower level and become rarer, because
/// a standby may wait for weeks (MGR-4).
#[derive(Debug)]
pub(crate) struct Reminders {
    next: Instant,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReminderLevel {
    Warning,
    Info,
}

impl Reminders {
    /// Starts the reminders of a wait that begins at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            next: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
        }
    }

    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the log level of the reminder that is due at `now`; `None` if no reminder is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<ReminderLevel> {
        if now < self.next {
            return None;
        }
        let is_first = self.pause == FIRST_PAUSE;
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
        self.next += self.pause;
        Some(if is_first {
            ReminderLevel::Warning
        } else {
            ReminderLevel::Info
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MGR-4
    #[test]
    fn one_warning_and_then_ever_rarer_lines_down_to_one_per_hour() {
        let start = tokio::time::Instant::now().into_std();
        let mut reminders = Reminders::new(start);
        assert_eq!(reminders.due(start), None);
        let mut seconds = Vec::new();
        let mut levels = Vec::new();
        for _ in 0..12 {
            let now = reminders.next();
            seconds.push((now - start).as_secs());
            levels.extend(reminders.due(now));
        }
        assert_eq!(
            seconds,
            [
                10, 30, 70, 150, 310, 630, 1270, 2550, 5110, 8710, 12310, 15910
            ]
        );
        assert_eq!(levels[0], ReminderLevel::Warning);
        assert!(levels[1..].iter().all(|each| *each == ReminderLevel::Info));
    }
}
