//! Words: the options for opening and pinging connections.

use std::time::Duration;

/// The longest ping interval; a longer one disables pings.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The options for opening and pinging the connections to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// The time without a frame from the server after which a ping is sent.
    pub ping_interval: Duration,
    /// The time after a ping within which the server must respond.
    pub ping_timeout: Duration,
    /// Whether the client offers only HTTP/1.1.
    pub http1_only: bool,
}

impl ConnectionOptions {
    /// Returns the interval and the timeout of pings; `None` if pings are off: either is zero or longer than a year.
    pub(crate) fn pings(&self) -> Option<(Duration, Duration)> {
        let sensible = |time: Duration| !time.is_zero() && time <= LONGEST;
        (sensible(self.ping_interval) && sensible(self.ping_timeout))
            .then_some((self.ping_interval, self.ping_timeout))
    }
}

impl Default for ConnectionOptions {
    /// The values of client-go (apimachinery, `util/net/http.go`, `readIdleTimeoutSeconds` and `pingTimeoutSeconds`).
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            http1_only: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_the_maximum_disable_pings() {
        let with = |ping_interval, ping_timeout| ConnectionOptions {
            ping_interval,
            ping_timeout,
            ..ConnectionOptions::default()
        };
        let second = Duration::from_secs(1);
        assert_eq!(with(second, second).pings(), Some((second, second)));
        for (interval, timeout) in [
            (Duration::ZERO, second),
            (second, Duration::ZERO),
            (Duration::MAX, second),
            (second, Duration::MAX),
        ] {
            assert_eq!(with(interval, timeout).pings(), None);
        }
    }
}
