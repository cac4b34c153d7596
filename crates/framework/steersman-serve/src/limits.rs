//! Words: the limits on connections and requests of a server.

use std::time::Duration;

use crate::error::Error;

/// The limits of a server. They bound the memory and the time that a client can cost (SERVE-1).
///
/// The default request times are those of controller-runtime's servers; the default size of a head is smaller.
/// [`Duration::MAX`] disables a time limit. Zero is refused when the server is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    pub(crate) connections: usize,
    pub(crate) handshake: Duration,
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) request: Duration,
    pub(crate) shutdown: Duration,
    pub(crate) head_bytes: usize,
}

/// The smallest head buffer that hyper accepts, in bytes.
const SMALLEST_HEAD: usize = 8192;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            request: Duration::from_secs(60),
            shutdown: Duration::from_secs(60),
            head_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// Makes the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximal number of open connections; 128 by default. At the limit, a new connection replaces the one
    /// that has waited longest for a request. If all have requests in progress, the new one is closed.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time limit of a TLS handshake; 10 s by default.
    pub fn handshake_timeout(mut self, time: Duration) -> Self {
        self.handshake = time;
        self
    }

    /// Sets the time limit for the head of a request; 32 s by default. The time starts with the connection for the
    /// first request, and with the first byte for later requests.
    pub fn read_header_timeout(mut self, time: Duration) -> Self {
        self.head = time;
        self
    }

    /// Sets the time without a request after which a connection is closed; 90 s by default.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Sets the time limit for the body of a request and its handler; 60 s by default. Then the handler is dropped, and
    /// the response is a 503.
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request = time;
        self
    }

    /// Sets how long a stopping server waits for requests in progress; 60 s by default. A manager with a shorter grace
    /// period ends them earlier.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.shutdown = time;
        self
    }

    /// Sets the maximal size of a request's head in bytes; 64 KiB by default, and at least 8 KiB. A larger head gets a
    /// 431.
    ///
    /// Go's net/http allows 1 MiB. The limit here is smaller, because heads are held before the client is known: 128
    /// connections with 1 MiB each take 128 MiB per server, as much as a small Pod has.
    pub fn max_header_bytes(mut self, bytes: usize) -> Self {
        self.head_bytes = bytes;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let zero = [
            ("max_connections", self.connections == 0),
            ("handshake_timeout", self.handshake.is_zero()),
            ("read_header_timeout", self.head.is_zero()),
            ("idle_timeout", self.idle.is_zero()),
            ("request_timeout", self.request.is_zero()),
            ("shutdown_timeout", self.shutdown.is_zero()),
            ("max_header_bytes", self.head_bytes == 0),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((limit, _)) => Err(Error::ZeroLimit { limit }),
            None => Ok(()),
        }
    }

    /// Returns the size of the head buffer, which hyper limits as well.
    pub(crate) fn head_buffer(&self) -> usize {
        self.head_bytes.clamp(SMALLEST_HEAD, u32::MAX as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_limit_is_refused_by_name() {
        assert!(Limits::new().check().is_ok());
        let error = Limits::new().idle_timeout(Duration::ZERO).check();
        assert!(error.unwrap_err().to_string().contains("idle_timeout"));
        assert!(Limits::new().request_timeout(Duration::MAX).check().is_ok());
    }

    /// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
    #[test]
    fn the_heads_of_all_connections_are_small_by_default() {
        let limits = Limits::new();
        assert!(limits.connections * limits.head_buffer() <= 16 << 20);
    }
}
