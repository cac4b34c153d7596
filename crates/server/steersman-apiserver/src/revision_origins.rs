//! Machine: remembers the time and the request of each retained revision, for the page of the server.

use std::collections::VecDeque;

use jiff::Timestamp;

/// When a revision was made, and by which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RevisionOrigin {
    pub(crate) at: Timestamp,
    /// The number of the request in the log; `None` for a revision that a controller of the server or a method call in
    /// its process made.
    pub(crate) request: Option<u64>,
}

/// The origins of the retained revisions. Each turn of the registry's lock makes consecutive revisions.
#[derive(Debug)]
pub(crate) struct RevisionOrigins {
    turns: VecDeque<RevisionTurn>,
    /// The newest revision after the last turn.
    newest: u64,
    /// The request of the verb that runs in this turn of the lock.
    running: Option<u64>,
}

#[derive(Debug)]
struct RevisionTurn {
    first: u64,
    last: u64,
    origin: RevisionOrigin,
}

impl RevisionOrigins {
    /// Creates an empty record that continues after this revision.
    pub(crate) fn after(revision: u64) -> Self {
        Self {
            turns: VecDeque::new(),
            newest: revision,
            running: None,
        }
    }

    /// Says which request runs in this turn of the lock.
    pub(crate) fn begin(&mut self, request: u64) {
        self.running = Some(request);
    }

    /// Ends a turn of the lock, after which the newest revision is `newest` and the oldest retained one is `oldest`.
    /// `now` is called only if the turn has made revisions.
    pub(crate) fn end(&mut self, newest: u64, oldest: u64, now: impl FnOnce() -> Timestamp) {
        let request = self.running.take();
        if newest <= self.newest {
            return;
        }
        let origin = RevisionOrigin { at: now(), request };
        self.turns.push_back(RevisionTurn {
            first: self.newest + 1,
            last: newest,
            origin,
        });
        self.newest = newest;
        while self.turns.front().is_some_and(|turn| turn.last < oldest) {
            self.turns.pop_front();
        }
    }

    pub(crate) fn origin(&self, revision: u64) -> Option<RevisionOrigin> {
        let at = self.turns.partition_point(|turn| turn.last < revision);
        let turn = self.turns.get(at)?;
        (turn.first <= revision).then_some(turn.origin)
    }

    pub(crate) fn revisions_of(&self, request: u64) -> Vec<u64> {
        let turns = self.turns.iter();
        let made = turns.filter(|turn| turn.origin.request == Some(request));
        made.flat_map(|turn| turn.first..=turn.last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_revision_is_of_the_request_that_ran_in_its_turn() {
        let mut origins = RevisionOrigins::after(10);
        origins.begin(7);
        origins.end(12, 1, || time(1));
        origins.end(13, 1, || time(2));
        // A request that changes nothing has no turn, and the next turn is not of this request.
        origins.begin(8);
        origins.end(13, 1, || {
            unreachable!("the clock is read only for a change")
        });
        origins.end(14, 1, || time(3));
        let request = |revision| origins.origin(revision).map(|origin| origin.request);
        assert_eq!(request(10), None);
        assert_eq!(request(11), Some(Some(7)));
        assert_eq!(request(12), Some(Some(7)));
        assert_eq!(request(13), Some(None));
        assert_eq!(request(14), Some(None));
        assert_eq!(request(15), None);
        assert_eq!(origins.revisions_of(7), [11, 12]);
        assert_eq!(origins.origin(14).unwrap().at, time(3));
    }

    #[test]
    fn origins_of_compacted_revisions_are_forgotten() {
        let mut origins = RevisionOrigins::after(0);
        for revision in 1..=100 {
            origins.end(revision, revision.saturating_sub(10), || time(0));
        }
        assert_eq!(origins.turns.len(), 11);
        assert_eq!(origins.origin(89), None);
        assert!(origins.origin(90).is_some());
    }
}
