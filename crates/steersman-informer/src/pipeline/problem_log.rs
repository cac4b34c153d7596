//! Machine: which changes of an informer's problem are a line in the log.

use std::time::{Duration, Instant};

use crate::state::Reason;

/// A failure that comes back so soon after it was over is the same one, and gets no lines of its own.
const AGAIN: Duration = Duration::from_secs(30);

/// What is written of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLine {
    None,
    Begins,
    Ends,
}

/// What the log says of an informer's problem: one line when it begins, and one when it ends.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    /// The problem that the log has the beginning of, and not the end.
    open: Option<ProblemGroup>,
    /// When the log said last that a problem is over, and which one it was.
    ended: Option<(ProblemGroup, Instant)>,
}

/// The groups of reasons that are one problem in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemGroup {
    /// A server that goes away, comes back and starts shows itself in several ways, one after the other.
    Outage,
    Of(Reason),
}

impl ProblemLog {
    /// What to write, at each attempt, of the problem that there is by now.
    pub(crate) fn judge(&mut self, reason: Option<Reason>, now: Instant) -> LogLine {
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

    /// An origin of time for tables.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    #[test]
    fn an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
        let start = origin();
        let mut problem_log = ProblemLog::default();
        let mut judge =
            |reason, seconds| problem_log.judge(reason, start + Duration::from_secs(seconds));
        assert_eq!(judge(Some(Reason::Network), 0), LogLine::Begins);
        for reason in [
            Reason::Network,
            Reason::Server,
            Reason::Starting,
            Reason::Silent,
        ] {
            assert_eq!(judge(Some(reason), 5), LogLine::None);
        }
        assert_eq!(judge(None, 10), LogLine::Ends);
        assert_eq!(judge(None, 11), LogLine::None);
        // It is not quite over yet.
        assert_eq!(judge(Some(Reason::Starting), 12), LogLine::None);
        assert_eq!(judge(None, 13), LogLine::None);
        // It lasts: the log must not end with the line that it is over.
        assert_eq!(judge(Some(Reason::Network), 39), LogLine::None);
        assert_eq!(judge(Some(Reason::Network), 40), LogLine::Begins);
    }

    #[test]
    fn another_problem_is_another_line() {
        let start = origin();
        let mut problem_log = ProblemLog::default();
        let mut judge = |reason| problem_log.judge(reason, start);
        assert_eq!(judge(Some(Reason::Unauthorized)), LogLine::Begins);
        assert_eq!(judge(Some(Reason::Unauthorized)), LogLine::None);
        assert_eq!(judge(Some(Reason::Server)), LogLine::Begins);
        assert_eq!(judge(Some(Reason::Forbidden)), LogLine::Begins);
        assert_eq!(judge(None), LogLine::Ends);
        assert_eq!(judge(Some(Reason::NotServed)), LogLine::Begins);
    }
}
