//! Machine: decides which connection carries a request, and when connections close.

use std::time::{Duration, Instant};

/// The time without a request after which a connection is closed, as in client-go.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1: a connection carries one request at a time.
    Http1,
    /// HTTP/2: a connection carries many concurrent requests, each as a stream.
    Http2,
}

/// The connection that carries a request, or the step that leads to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The request is sent on this HTTP/2 connection, and counts as one of its streams.
    Stream(ConnectionId),
    /// The request is sent on this HTTP/1.1 connection, which is no longer idle.
    Exclusive(ConnectionId),
    /// A connection is opened for this request alone, because the server speaks HTTP/1.1.
    DialAlone,
    /// A connection is opened. Further requests wait for it.
    Dial,
    /// The request waits for a connection that is being opened.
    Wait,
}

/// The connections of a pool.
///
/// CONN-1: HTTP/2 connections are opened one at a time, and only if all others carry the maximum of streams that the
/// server allows. No request waits for the end of another's stream.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    multiplexed: Vec<Connection>,
    /// The idle HTTP/1.1 connections, the last used one last.
    idle: Vec<Connection>,
    protocol: Option<Protocol>,
    dialing: bool,
    /// The newest generation of credentials with which a connection was opened.
    generation: u64,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    generation: u64,
    /// The number of requests with a response that has not ended; 0 for an idle HTTP/1.1 connection.
    streams: usize,
    /// When the last request ended.
    since: Instant,
}

impl ConnectionTable {
    /// Chooses the connection for a request. `limit` returns the number of streams that the server allows on a
    /// connection; 0 for a closed connection.
    pub(crate) fn next_connection(&mut self, limit: impl Fn(ConnectionId) -> usize) -> Choice {
        let generation = self.generation;
        let free = self.multiplexed.iter_mut().find(|connection| {
            connection.generation == generation && connection.streams < limit(connection.id)
        });
        if let Some(connection) = free {
            connection.streams += 1;
            return Choice::Stream(connection.id);
        }
        if let Some(connection) = self.idle.pop() {
            return Choice::Exclusive(connection.id);
        }
        if self.protocol == Some(Protocol::Http1) {
            return Choice::DialAlone;
        }
        if self.dialing {
            return Choice::Wait;
        }
        self.dialing = true;
        Choice::Dial
    }

    pub(crate) fn handle_dialed(&mut self) {
        self.dialing = false;
    }

    /// Adds a connection that was opened with credentials of `generation`. Returns the idle connections with older
    /// credentials, for the caller to close.
    ///
    /// CONN-4: connections with older credentials get no new requests, and close after their last request.
    pub(crate) fn handle_opened(
        &mut self,
        id: ConnectionId,
        protocol: Protocol,
        generation: u64,
        now: Instant,
    ) -> Vec<ConnectionId> {
        self.protocol = Some(protocol);
        let connection = Connection::new(id, generation, now);
        match protocol {
            Protocol::Http1 => self.idle.push(connection),
            Protocol::Http2 => self.multiplexed.push(connection),
        }
        self.handle_renewed(generation)
    }

    /// Records the generation of new credentials. Returns the idle connections with older credentials, for the caller
    /// to close.
    pub(crate) fn handle_renewed(&mut self, generation: u64) -> Vec<ConnectionId> {
        self.generation = self.generation.max(generation);
        let newest = self.generation;
        let is_over = move |connection: &mut Connection| {
            connection.generation != newest && connection.streams == 0
        };
        let idle = self.idle.extract_if(.., is_over);
        let closed = idle.chain(self.multiplexed.extract_if(.., is_over));
        closed.map(|connection| connection.id).collect()
    }

    /// Records the end of a stream. Returns whether the caller must close the HTTP/2 connection.
    pub(crate) fn handle_released(&mut self, id: ConnectionId, now: Instant) -> bool {
        let newest = self.generation;
        let Some(at) = self
            .multiplexed
            .iter()
            .position(|connection| connection.id == id)
        else {
            return false;
        };
        let connection = &mut self.multiplexed[at];
        connection.streams = connection.streams.saturating_sub(1);
        connection.since = now;
        let over = connection.streams == 0 && connection.generation != newest;
        if over {
            self.multiplexed.remove(at);
        }
        over
    }

    /// Adds an idle HTTP/1.1 connection. Returns whether it may be kept for another request.
    pub(crate) fn handle_idle(&mut self, id: ConnectionId, generation: u64, now: Instant) -> bool {
        let current = generation == self.generation;
        if current {
            self.idle.push(Connection::new(id, generation, now));
        }
        current
    }

    /// Removes and returns all idle HTTP/1.1 connections, because the server has closed one of them: the next request
    /// opens a new connection instead of trying old ones.
    pub(crate) fn distrust_idle(&mut self) -> Vec<ConnectionId> {
        self.idle
            .drain(..)
            .map(|connection| connection.id)
            .collect()
    }

    /// Removes a connection that has closed or accepts no further requests.
    pub(crate) fn handle_closed(&mut self, id: ConnectionId) {
        self.multiplexed.retain(|connection| connection.id != id);
        self.idle.retain(|connection| connection.id != id);
    }

    /// Removes a connection if it has been idle for [`IDLE`]. Returns whether it was removed.
    pub(crate) fn handle_expiry(&mut self, id: ConnectionId, now: Instant) -> bool {
        let expired = self.multiplexed.iter().chain(&self.idle).any(|connection| {
            let rest = now.saturating_duration_since(connection.since);
            connection.id == id && connection.streams == 0 && rest >= IDLE
        });
        if expired {
            self.handle_closed(id);
        }
        expired
    }
}

impl Connection {
    fn new(id: ConnectionId, generation: u64, since: Instant) -> Self {
        Self {
            id,
            generation,
            streams: 0,
            since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);
    const TWO: ConnectionId = ConnectionId(2);

    /// CONN-1: clients of one configuration share connections.
    #[test]
    fn a_second_link_is_opened_only_when_the_first_is_full() {
        let (mut table, now) = (
            ConnectionTable::default(),
            tokio::time::Instant::now().into_std(),
        );
        let limit = |_| 2;
        assert_eq!(table.next_connection(limit), Choice::Dial);
        assert_eq!(table.next_connection(limit), Choice::Wait);
        table.handle_dialed();
        assert!(table.handle_opened(ONE, Protocol::Http2, 0, now).is_empty());
        assert_eq!(table.next_connection(limit), Choice::Stream(ONE));
        assert_eq!(table.next_connection(limit), Choice::Stream(ONE));
        assert_eq!(table.next_connection(limit), Choice::Dial);
        assert_eq!(table.next_connection(limit), Choice::Wait);
        table.handle_dialed();
        table.handle_opened(TWO, Protocol::Http2, 0, now);
        assert_eq!(table.next_connection(limit), Choice::Stream(TWO));
        // Requests use the oldest connection first, so that a newer one can become idle and close.
        assert!(!table.handle_released(ONE, now));
        assert_eq!(table.next_connection(limit), Choice::Stream(ONE));
    }

    #[test]
    fn a_server_of_http_1_gets_a_link_per_request_and_idle_ones_are_used_again() {
        let (mut table, now) = (
            ConnectionTable::default(),
            tokio::time::Instant::now().into_std(),
        );
        assert_eq!(table.next_connection(|_| 0), Choice::Dial);
        table.handle_dialed();
        table.handle_opened(ONE, Protocol::Http1, 0, now);
        assert_eq!(table.next_connection(|_| 0), Choice::Exclusive(ONE));
        assert_eq!(table.next_connection(|_| 0), Choice::DialAlone);
        assert!(table.handle_idle(ONE, 0, now));
        assert_eq!(table.next_connection(|_| 0), Choice::Exclusive(ONE));
        // After a restart of the server, the idle connections are closed, and not tried one after another.
        assert!(table.handle_idle(ONE, 0, now) && table.handle_idle(TWO, 0, now));
        assert_eq!(table.distrust_idle(), [ONE, TWO]);
        assert_eq!(table.next_connection(|_| 0), Choice::DialAlone);
    }

    /// CONN-4: credentials in files are read again.
    #[test]
    fn links_of_older_credentials_end_with_their_last_request() {
        let (mut table, now) = (
            ConnectionTable::default(),
            tokio::time::Instant::now().into_std(),
        );
        table.handle_opened(ONE, Protocol::Http2, 0, now);
        assert_eq!(table.next_connection(|_| 9), Choice::Stream(ONE));
        assert!(table.handle_renewed(1).is_empty());
        assert_eq!(table.next_connection(|_| 9), Choice::Dial);
        assert!(table.handle_released(ONE, now));
        table.handle_dialed();
        table.handle_opened(TWO, Protocol::Http2, 1, now);
        assert_eq!(table.next_connection(|_| 9), Choice::Stream(TWO));
        // An idle connection with older credentials closes at once.
        table.handle_released(TWO, now);
        assert_eq!(table.handle_renewed(2), [TWO]);
        // An HTTP/1.1 connection with older credentials does not return to the pool.
        assert!(!table.handle_idle(ONE, 1, now));
    }

    #[test]
    fn a_link_expires_after_90_s_without_a_request_and_not_with_one() {
        let (mut table, now) = (
            ConnectionTable::default(),
            tokio::time::Instant::now().into_std(),
        );
        table.handle_opened(ONE, Protocol::Http2, 0, now);
        table.next_connection(|_| 9);
        assert!(!table.handle_expiry(ONE, now + IDLE));
        table.handle_released(ONE, now + IDLE);
        assert!(!table.handle_expiry(ONE, now + IDLE));
        assert!(table.handle_expiry(ONE, now + IDLE + IDLE));
        assert_eq!(table.next_connection(|_| 9), Choice::Dial);
    }
}
