//! Machine: a simulated restart of the server that takes time, and its effect on the requests of each phase.

use std::time::Duration;

use steersman_apimachinery::status::Status;

use super::record::{RequestRecord, Verb};

/// Whether a server keeps its history (past revisions) over [`ApiServer::restart`](crate::ApiServer::restart).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Watches and lists can start from resource versions before the restart.
    Kept,
    /// Watches and lists that start from resource versions before the restart are answered 410.
    Lost,
}

/// A restart of the server, and the durations of its phases; by default each phase takes no time.
///
/// The phases: the server refuses connections, then it installs its paths, then it initializes its storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a restart does nothing until it is given to `ApiServer::restart`"]
pub struct Restart {
    pub(crate) history: History,
    away: Duration,
    installing: Duration,
    initializing: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPhase {
    /// The server refuses connections, and requests in process get no answer.
    Away,
    /// Requests are answered 503, because the paths are not installed yet.
    Installing,
    /// Lists and watches are refused with 429, because the storages are being read.
    Initializing,
}

#[derive(Debug)]
pub(crate) enum RestartEffect {
    /// The request gets no answer.
    Nothing,
    Refusal(Box<Status>),
    /// `/readyz` and `/healthz` report that the server is not ready.
    NotReady,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(super) restart: Restart,
    began: Duration,
}

impl Restart {
    /// Creates a restart in which every phase takes no time, until its duration is set.
    pub fn new(history: History) -> Self {
        Self {
            history,
            away: Duration::ZERO,
            installing: Duration::ZERO,
            initializing: Duration::ZERO,
        }
    }

    /// Sets how long connections are refused, and in-process requests get no answer.
    pub fn away(mut self, time: Duration) -> Self {
        self.away = time;
        self
    }

    /// Sets how long, once connections are accepted again, requests are answered 503 because the paths are not
    /// installed yet. `/livez` and `/version` are served, and `/readyz` says 500.
    pub fn installing(mut self, time: Duration) -> Self {
        self.installing = time;
        self
    }

    /// Sets how long, once the paths are installed, lists and watches are answered `429 storage is (re)initializing`.
    pub fn initializing(mut self, time: Duration) -> Self {
        self.initializing = time;
        self
    }
}

impl From<History> for Restart {
    fn from(history: History) -> Self {
        Self::new(history)
    }
}

impl Outage {
    pub(crate) fn new(restart: Restart, began: Duration) -> Self {
        Self { restart, began }
    }

    /// Returns the phase at the time `now` and the time until the phase ends; `None` once the restart is over.
    pub(crate) fn phase(&self, now: Duration) -> Option<(RestartPhase, Duration)> {
        let mut ends = self.began;
        for (phase, time) in [
            (RestartPhase::Away, self.restart.away),
            (RestartPhase::Installing, self.restart.installing),
            (RestartPhase::Initializing, self.restart.initializing),
        ] {
            ends = ends.saturating_add(time);
            if now < ends {
                return Some((phase, ends.saturating_sub(now)));
            }
        }
        None
    }
}

impl RestartPhase {
    pub(crate) fn meet(self, record: &RequestRecord) -> Option<RestartEffect> {
        let refusal = |code, reason, message: &str, seconds| {
            let refusal = Status::failure(code, reason, message).with_retry_after(seconds);
            Some(RestartEffect::Refusal(Box::new(refusal)))
        };
        match self {
            Self::Away => Some(RestartEffect::Nothing),
            Self::Installing => match record.path.trim_matches('/') {
                "readyz" | "healthz" => Some(RestartEffect::NotReady),
                "version" | "livez" => None,
                _ => {
                    let message = "the request has been made before all known HTTP paths have been installed, please try again";
                    refusal(503, "ServiceUnavailable", message, 5)
                }
            },
            Self::Initializing if record.does(Verb::List) || record.does(Verb::Watch) => {
                refusal(429, "TooManyRequests", "storage is (re)initializing", 1)
            }
            Self::Initializing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_restart_follow_each_other_without_overflow() {
        let second = Duration::from_secs(1);
        let restart = Restart::new(History::Lost)
            .away(second)
            .initializing(second);
        let outage = Outage::new(restart, second);
        let phase = |millis: u64| {
            outage
                .phase(Duration::from_millis(millis))
                .map(|(phase, _)| phase)
        };
        assert_eq!(phase(1_999), Some(RestartPhase::Away));
        assert_eq!(phase(2_000), Some(RestartPhase::Initializing));
        assert_eq!(phase(3_000), None);
        let endless = Outage::new(restart.away(Duration::MAX), second);
        assert_eq!(
            endless.phase(second * 1_000).map(|(phase, _)| phase),
            Some(RestartPhase::Away)
        );
    }
}
