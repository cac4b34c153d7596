//! Machine: a restart that takes time: what the requests of its phases meet.

use std::time::Duration;

use steersman_text::status::Status;

use super::record::{RequestRecord, Verb};

/// What a server knows of the past after [`ApiServer::restart`](crate::ApiServer::restart).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// All that it knew before.
    Kept,
    /// Nothing.
    Lost,
}

/// A restart of the server, and how long its phases take; by default none of them takes any time.
///
/// First the server is away, then it installs its paths, then it initializes its storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a restart does nothing until it is given to `ApiServer::restart`"]
pub struct Restart {
    history: History,
    away: Duration,
    installing: Duration,
    initializing: Duration,
}

/// Where a restart has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connections are refused.
    Away,
    /// The paths are not known yet.
    Installing,
    /// The storages are read: there are no lists and no watches.
    Initializing,
}

/// What a request meets during a restart.
#[derive(Debug)]
pub(crate) enum Met {
    /// No answer.
    Nothing,
    /// This refusal.
    Refusal(Box<Status>),
    /// A health endpoint says that the server is not ready.
    NotReady,
}

/// A restart that goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    restart: Restart,
    began: Duration,
}

impl Restart {
    /// A restart that takes no time.
    pub fn new(history: History) -> Self {
        Self {
            history,
            away: Duration::ZERO,
            installing: Duration::ZERO,
            initializing: Duration::ZERO,
        }
    }

    /// The time during which connections are refused, and requests in this process get no answer.
    pub fn away(mut self, time: Duration) -> Self {
        self.away = time;
        self
    }

    /// The time after that during which requests are answered 503, as the paths are not installed yet. `/livez` and
    /// `/version` are served, and `/readyz` says 500.
    pub fn installing(mut self, time: Duration) -> Self {
        self.installing = time;
        self
    }

    /// The time after that during which lists and watches are answered `429 storage is (re)initializing`.
    pub fn initializing(mut self, time: Duration) -> Self {
        self.initializing = time;
        self
    }

    pub(crate) fn keeps_history(&self) -> bool {
        self.history == History::Kept
    }
}

impl From<History> for Restart {
    fn from(history: History) -> Self {
        Self::new(history)
    }
}

impl Outage {
    pub(crate) fn new(restart: Restart, now: Duration) -> Self {
        Self {
            restart,
            began: now,
        }
    }

    /// The phase, and how much is left of it; none once the restart is over.
    pub(crate) fn phase(&self, now: Duration) -> Option<(Phase, Duration)> {
        let mut ends = self.began;
        for (phase, time) in [
            (Phase::Away, self.restart.away),
            (Phase::Installing, self.restart.installing),
            (Phase::Initializing, self.restart.initializing),
        ] {
            ends = ends.saturating_add(time);
            if now < ends {
                return Some((phase, ends.saturating_sub(now)));
            }
        }
        None
    }

    /// Whether the past is forgotten once the restart is over.
    pub(crate) fn forgets(&self) -> bool {
        !self.restart.keeps_history()
    }
}

impl Phase {
    /// What a request meets, if it meets anything.
    pub(crate) fn meet(self, record: &RequestRecord) -> Option<Met> {
        match self {
            Self::Away => Some(Met::Nothing),
            Self::Installing => match record.path.trim_matches('/') {
                "readyz" | "healthz" => Some(Met::NotReady),
                "version" | "livez" => None,
                _ => {
                    let message = "the request has been made before all known HTTP paths have been installed, please try again";
                    let refusal = Status::failure(503, "ServiceUnavailable", message);
                    Some(Met::Refusal(Box::new(refusal.with_retry_after(5))))
                }
            },
            Self::Initializing if record.does(Verb::List) || record.does(Verb::Watch) => {
                let message = "storage is (re)initializing";
                let refusal = Status::failure(429, "TooManyRequests", message);
                Some(Met::Refusal(Box::new(refusal.with_retry_after(1))))
            }
            Self::Initializing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_follow_each_other_and_the_longest_does_not_overflow() {
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
        assert_eq!(phase(1_999), Some(Phase::Away));
        assert_eq!(phase(2_000), Some(Phase::Initializing));
        assert_eq!(phase(3_000), None);
        let endless = Outage::new(restart.away(Duration::MAX), second);
        assert_eq!(
            endless.phase(second * 1_000).map(|(phase, _)| phase),
            Some(Phase::Away)
        );
    }
}
