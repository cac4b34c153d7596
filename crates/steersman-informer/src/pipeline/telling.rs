//! Machine: which changes of an informer's problem are a line in the log.

use std::time::{Duration, Instant};

use crate::state::Reason;

/// A failure that comes back so soon after it was over is the same one, and gets no lines of its own.
const AGAIN: Duration = Duration::from_secs(30);

/// What is written of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    None,
    Begins,
    Ends,
}

/// What the log says of an informer's problem: one line when it begins, and one when it ends.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// The problem that the log has the beginning of, and not the end.
    open: Option<Trouble>,
    /// When the log said last that a problem is over, and which one it was.
    ended: Option<(Trouble, Instant)>,
}

/// The groups of reasons that are one problem in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// A server that goes away, comes back and starts shows itself in several ways, one after the other.
    Outage,
    Of(Reason),
}

impl Telling {
    /// What to write, at each attempt, of the problem that there is by now.
    pub(crate) fn judge(&mut self, reason: Option<Reason>, now: Instant) -> Line {
        let Some(trouble) = reason.map(Trouble::of) else {
            let Some(open) = self.open.take() else {
                return Line::None;
            };
            self.ended = Some((open, now));
            return Line::Ends;
        };
        let again = |ended: (Trouble, Instant)| ended.0 == trouble && now < ended.1 + AGAIN;
        if self.open == Some(trouble) || self.ended.is_some_and(again) {
            return Line::None;
        }
        self.open = Some(trouble);
        Line::Begins
    }
}

impl Trouble {
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
        let mut telling = Telling::default();
        let mut judge =
            |reason, seconds| telling.judge(reason, start + Duration::from_secs(seconds));
        assert_eq!(judge(Some(Reason::Network), 0), Line::Begins);
        for reason in [
            Reason::Network,
            Reason::Server,
            Reason::Starting,
            Reason::Silent,
        ] {
            assert_eq!(judge(Some(reason), 5), Line::None);
        }
        assert_eq!(judge(None, 10), Line::Ends);
        assert_eq!(judge(None, 11), Line::None);
        // It is not quite over yet.
        assert_eq!(judge(Some(Reason::Starting), 12), Line::None);
        assert_eq!(judge(None, 13), Line::None);
        // It lasts: the log must not end with the line that it is over.
        assert_eq!(judge(Some(Reason::Network), 39), Line::None);
        assert_eq!(judge(Some(Reason::Network), 40), Line::Begins);
    }

    #[test]
    fn another_problem_is_another_line() {
        let start = origin();
        let mut telling = Telling::default();
        let mut judge = |reason| telling.judge(reason, start);
        assert_eq!(judge(Some(Reason::Unauthorized)), Line::Begins);
        assert_eq!(judge(Some(Reason::Unauthorized)), Line::None);
        assert_eq!(judge(Some(Reason::Server)), Line::Begins);
        assert_eq!(judge(Some(Reason::Forbidden)), Line::Begins);
        assert_eq!(judge(None), Line::Ends);
        assert_eq!(judge(Some(Reason::NotServed)), Line::Begins);
    }
}
