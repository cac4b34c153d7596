//! Words: the limits of a server's connections and requests.

use std::time::Duration;

use crate::error::Error;

/// The limits of a server. They bound the memory and the time that a client can cost (SERVE-1).
///
/// The times of requests are those of controller-runtime's servers; the head of a request is smaller. [`Duration::MAX`]
/// disables a time limit; zero is refused when the server is made.
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

/// The smallest buffer that hyper accepts for the head of a request, in bytes.
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

    /// Sets the number of open connections; 128 by default. At the limit, a new connection closes the one that
    /// has waited longest for a request; if each connection has a request in progress, the new one is closed.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time for a TLS handshake; 10 s by default.
    pub fn handshake_timeout(mut self, time: Duration) -> Self {
        self.handshake = time;
        self
    }

    /// Sets the time in which the head of a request must arrive; 32 s by default. For the first request the time
    /// begins with the connection, for later ones with their first byte.
    pub fn read_header_timeout(mut self, time: Duration) -> Self {
        self.head = time;
        self
    }

    /// Sets the time without a request after which a connection is closed; 90 s by default.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Sets the time for the body of a request and its handler; 60 s by default. Afterwards the handler is
    /// dropped, and the response is a 503.
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request = time;
        self
    }

    /// Sets the time that requests in progress have to finish when the server stops; 60 s by default. A manager
    /// with a shorter grace period ends them earlier.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.shutdown = time;
        self
    }

    /// Sets the size of the head of a request in bytes; 64 KiB by default, and at least 8 KiB. A larger head is
    /// answered with a 431.
    ///
    /// The default of Go's net/http is 1 MiB. Here it is smaller, because the server holds heads before it knows the
    /// clients: 128 connections with heads of 1 MiB are 128 MiB in each server, as much as a small Pod has.
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

    /// Returns the size of the head of a request, within the bounds of hyper.
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

    /// SERVE-1
    #[test]
    fn the_heads_of_all_connections_are_small_by_default() {
        let limits = Limits::new();
        assert!(limits.connections * limits.head_buffer() <= 16 << 20);
    }
}
