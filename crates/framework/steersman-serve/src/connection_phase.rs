//! Machine: the phase of a connection, and how long the phase may last.

use std::time::{Duration, Instant};

use crate::limits::Limits;

/// The phase of one connection, what the server waits for, and the start of the phase (SERVE-1).
#[derive(Debug)]
pub(crate) struct ConnectionPhase {
    limits: Limits,
    phase: RequestPhase,
    /// The start of the phase. For an idle or busy connection, also the last time that bytes of a response were sent.
    since: Instant,
    /// The number of requests in progress with a stream as their response.
    streams: usize,
    /// Whether the connection speaks HTTP/2, in which bytes between requests, such as pings, begin no request.
    is_multiplexed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPhase {
    Handshake,
    /// The server waits for the head of a request: the first head, or a later one after its first byte.
    Head,
    /// No request is in progress. The last response may still be being sent.
    Idle,
    /// This number of requests is in progress.
    Busy(usize),
}

/// The longest time between two checks of a deadline, because a limit may be too large to be added to an instant.
const LONGEST_REST: Duration = Duration::from_secs(3600);

impl ConnectionPhase {
    pub(crate) fn new(limits: Limits, has_handshake: bool, now: Instant) -> Self {
        let phase = if has_handshake {
            RequestPhase::Handshake
        } else {
            RequestPhase::Head
        };
        Self {
            limits,
            phase,
            since: now,
            streams: 0,
            is_multiplexed: false,
        }
    }

    fn enter(&mut self, phase: RequestPhase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    pub(crate) fn handle_handshake(&mut self, is_multiplexed: bool, now: Instant) {
        self.is_multiplexed = is_multiplexed;
        self.enter(RequestPhase::Head, now);
    }

    pub(crate) fn handle_read(&mut self, now: Instant) {
        if self.phase == RequestPhase::Idle && !self.is_multiplexed {
            self.enter(RequestPhase::Head, now);
        }
    }

    pub(crate) fn handle_written(&mut self, now: Instant) {
        let is_progress = match self.phase {
            RequestPhase::Handshake | RequestPhase::Head => false,
            RequestPhase::Idle => !self.is_multiplexed,
            RequestPhase::Busy(_) => true,
        };
        if is_progress {
            self.since = now;
        }
    }

    pub(crate) fn handle_request(&mut self, now: Instant) {
        let earlier = match self.phase {
            RequestPhase::Busy(requests) => requests,
            RequestPhase::Handshake | RequestPhase::Head | RequestPhase::Idle => 0,
        };
        self.enter(RequestPhase::Busy(earlier.saturating_add(1)), now);
    }

    /// Records that the response to a request was handed to the connection, or that the request was cancelled.
    pub(crate) fn handle_response(&mut self, now: Instant) {
        match self.phase {
            RequestPhase::Busy(0 | 1) => self.enter(RequestPhase::Idle, now),
            RequestPhase::Busy(more) => self.enter(RequestPhase::Busy(more - 1), now),
            RequestPhase::Handshake | RequestPhase::Head | RequestPhase::Idle => {}
        }
    }

    /// Records that the response to a request in progress is a stream, which has no last part to wait for.
    pub(crate) fn handle_stream(&mut self) {
        self.streams += 1;
    }

    /// Records that a stream has ended or its client is gone, before the end of its request is recorded.
    pub(crate) fn handle_stream_end(&mut self) {
        self.streams = self.streams.saturating_sub(1);
    }

    /// Returns when to close the connection if its phase does not change; `None` for never.
    ///
    /// With a request in progress, this is the time limit of the handler, plus the idle time without a sent byte of the
    /// response.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let limits = &self.limits;
        let limit = match self.phase {
            RequestPhase::Handshake => limits.handshake,
            RequestPhase::Head => limits.head,
            RequestPhase::Idle => limits.idle,
            RequestPhase::Busy(_) => limits.request.saturating_add(limits.idle),
        };
        self.since.checked_add(limit)
    }

    /// Returns when to check the deadline again; the deadline is over if that is not after `now`. Phase changes need
    /// not wake the check, because no later phase can end before the shortest limit has passed.
    pub(crate) fn next_check(&self, now: Instant) -> Instant {
        let limits = &self.limits;
        let shortest = limits.handshake.min(limits.head).min(limits.idle);
        let later = now + shortest.min(LONGEST_REST);
        self.deadline()
            .map_or(later, |deadline| deadline.min(later))
    }

    /// Returns since when the connection has waited for a request; `None` while a request is in progress.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let is_busy = matches!(self.phase, RequestPhase::Busy(_));
        (!is_busy).then_some(self.since)
    }

    /// Returns whether a stop can close the connection at once, because no response is lost (SERVE-3).
    pub(crate) fn can_stop(&self) -> bool {
        match self.phase {
            RequestPhase::Handshake | RequestPhase::Head => true,
            RequestPhase::Idle => false,
            RequestPhase::Busy(requests) => requests <= self.streams,
        }
    }

    /// Returns since when a stopping connection has had no more to send; `None` while a response is to come (SERVE-3).
    pub(crate) fn done_since(&self) -> Option<Instant> {
        let is_done = match self.phase {
            RequestPhase::Busy(requests) => requests <= self.streams,
            RequestPhase::Handshake | RequestPhase::Head | RequestPhase::Idle => true,
        };
        is_done.then_some(self.since)
    }
}

/// Returns the connection to close for a new one: the one that has waited longest for a request.
pub(crate) fn longest_waiting<I: Copy>(
    connections: impl Iterator<Item = (I, Option<Instant>)>,
) -> Option<I> {
    let waiting = connections.filter_map(|(id, since)| Some((since?, id)));
    waiting.min_by_key(|(since, _)| *since).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
    #[test]
    fn each_phase_has_its_own_time() {
        let t = start();
        let mut phase = ConnectionPhase::new(Limits::new(), true, t);
        assert_eq!(phase.deadline(), Some(t + 10 * S), "handshake");
        phase.handle_handshake(false, t + S);
        assert_eq!(phase.deadline(), Some(t + 33 * S), "head");
        // A head that arrives byte by byte does not extend its time limit.
        phase.handle_read(t + 20 * S);
        assert_eq!(phase.deadline(), Some(t + 33 * S));
        phase.handle_request(t + 21 * S);
        assert_eq!(phase.deadline(), Some(t + 171 * S), "request and response");
        phase.handle_response(t + 22 * S);
        assert_eq!(phase.deadline(), Some(t + 112 * S), "idle");
        // The response is still being sent.
        phase.handle_written(t + 30 * S);
        assert_eq!(phase.deadline(), Some(t + 120 * S));
        // The first byte of the next head starts a new phase.
        phase.handle_read(t + 40 * S);
        assert_eq!(phase.deadline(), Some(t + 72 * S), "next head");
    }

    /// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
    #[test]
    fn no_phase_that_begins_later_is_over_before_the_next_check() {
        let t = start();
        let mut phase = ConnectionPhase::new(Limits::new(), true, t);
        let changes: [fn(&mut ConnectionPhase, Instant); 5] = [
            |phase, now| phase.handle_handshake(false, now),
            ConnectionPhase::handle_request,
            ConnectionPhase::handle_response,
            ConnectionPhase::handle_read,
            ConnectionPhase::handle_written,
        ];
        for change in changes {
            let check = phase.next_check(t);
            assert!(t < check && phase.deadline().is_some_and(|deadline| check <= deadline));
            change(&mut phase, t);
            assert!(phase.deadline().is_some_and(|deadline| check <= deadline));
        }
        let over = phase.deadline().unwrap();
        assert_eq!(phase.next_check(over), over);
    }

    /// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
    #[test]
    fn pings_of_http2_keep_no_connection_open() {
        let t = start();
        let mut phase = ConnectionPhase::new(Limits::new(), true, t);
        phase.handle_handshake(true, t);
        phase.handle_read(t + 5 * S);
        phase.handle_written(t + 5 * S);
        assert_eq!(phase.deadline(), Some(t + 32 * S));
        phase.handle_request(t + 6 * S);
        phase.handle_request(t + 6 * S);
        phase.handle_response(t + 7 * S);
        assert_eq!(phase.waiting_since(), None);
        phase.handle_response(t + 8 * S);
        phase.handle_read(t + 50 * S);
        phase.handle_written(t + 50 * S);
        assert_eq!(phase.deadline(), Some(t + 98 * S));
    }

    /// SERVE-3: a stop waits for the requests in progress, but for no stream.
    #[test]
    fn a_stop_waits_for_requests_beside_a_stream() {
        let t = start();
        let mut phase = ConnectionPhase::new(Limits::new(), false, t);
        assert!(phase.can_stop());
        phase.handle_request(t);
        assert!(!phase.can_stop());
        phase.handle_stream();
        assert!(phase.can_stop());
        phase.handle_request(t + S);
        assert!(!phase.can_stop());
        assert_eq!(phase.done_since(), None);
        phase.handle_response(t + 2 * S);
        assert_eq!(phase.done_since(), Some(t + 2 * S), "the stream alone");
        assert_eq!(phase.waiting_since(), None, "it makes no room");
        phase.handle_stream_end();
        phase.handle_response(t + 3 * S);
        assert!(!phase.can_stop(), "the last part may still be being sent");
        phase.handle_request(t + 4 * S);
        assert!(!phase.can_stop());
    }

    #[test]
    fn the_longest_duration_never_fires() {
        let t = start();
        let limits = Limits::new()
            .request_timeout(Duration::MAX)
            .idle_timeout(Duration::MAX);
        let mut phase = ConnectionPhase::new(limits, false, t);
        phase.handle_request(t);
        assert_eq!(phase.deadline(), None);
        phase.handle_response(t);
        assert_eq!(phase.deadline(), None);
    }

    /// SERVE-2: the number of open connections stays within the limit.
    #[test]
    fn the_connection_that_waited_longest_makes_room() {
        let t = start();
        let of = |table: &[(u32, Option<Instant>)]| longest_waiting(table.iter().copied());
        assert_eq!(of(&[(1, Some(t + S)), (2, None), (3, Some(t))]), Some(3));
        assert_eq!(of(&[(1, None), (2, None)]), None);
        assert_eq!(of(&[]), None);
    }
}
