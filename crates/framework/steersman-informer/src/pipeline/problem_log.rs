//! Machine: decides which changes of an informer's problem are logged.

use std::time::{Duration, Instant};

use crate::state::Reason;

/// A problem that returns within this time after its end is not logged again, so that it cannot flood the log.
const AGAIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLine {
    None,
    Begins,
    Ends,
}

/// Decides when a line is logged: once when a problem begins, and once when it ends.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    /// The problem that was logged when it began, and has not ended.
    open: Option<ProblemGroup>,
    ended: Option<(ProblemGroup, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemGroup {
    /// An outage. It shows as several reasons in turn, and the first of them is logged.
    Outage,
    Of(Reason),
}

impl ProblemLog {
    /// Decides what to log after an attempt. `reason` says why requests fail now; `None` if they do not fail.
    pub(crate) fn next_line(&mut self, reason: Option<Reason>, now: Instant) -> LogLine {
        let Some(trouble) = reason.map(ProblemGroup::of) else {
            let Some(open) = self.open.take() else {
                return LogLine::None;
            };
            self.ended = Some((open, now));
            return LogLine::Ends;
        };
        let again = |ended: (ProblemGroup, Instant)| ended.0 == trouble && now < ended.1 + AGAIN;
        if self.open == Some(trouble) || self.ended.is_some_and(again) {
            return LogLine::None;
        }
        self.open = Some(trouble);
        LogLine::Begins
    }
}

impl ProblemGroup {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::Network | Reason::Server | Reason::Starting | Reason::Silent => Self::Outage,
            other => Self::Of(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the origin of the test's instants.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    #[test]
    fn an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
        let start = origin();
        let mut problem_log = ProblemLog::default();
        let mut decoder =
            |reason, seconds| problem_log.next_line(reason, start + Duration::from_secs(seconds));
        assert_eq!(decoder(Some(Reason::Network), 0), LogLine::Begins);
        for reason in [
            Reason::Network,
            Reason::Server,
            Reason::Starting,
            Reason::Silent,
        ] {
            assert_eq!(decoder(Some(reason), 5), LogLine::None);
        }
        assert_eq!(decoder(None, 10), LogLine::Ends);
        assert_eq!(decoder(None, 11), LogLine::None);
        // The problem comes back soon.
        assert_eq!(decoder(Some(Reason::Starting), 12), LogLine::None);
        assert_eq!(decoder(None, 13), LogLine::None);
        // The problem persists, so the log must not end with the line about its end.
        assert_eq!(decoder(Some(Reason::Network), 39), LogLine::None);
        assert_eq!(decoder(Some(Reason::Network), 40), LogLine::Begins);
    }

    #[test]
    fn each_problem_gets_its_own_lines() {
        let start = origin();
        let mut problem_log = ProblemLog::default();
        let mut decoder = |reason| problem_log.next_line(reason, start);
        assert_eq!(decoder(Some(Reason::Unauthorized)), LogLine::Begins);
        assert_eq!(decoder(Some(Reason::Unauthorized)), LogLine::None);
        assert_eq!(decoder(Some(Reason::Server)), LogLine::Begins);
        assert_eq!(decoder(Some(Reason::Forbidden)), LogLine::Begins);
        assert_eq!(decoder(None), LogLine::Ends);
        assert_eq!(decoder(Some(Reason::NotServed)), LogLine::Begins);
    }
}
