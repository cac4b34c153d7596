//! Machine: classifies the errors of lists and watches.

use std::time::Duration;

use steersman_api::Error;

use crate::state::Reason;

/// A failed request, or an ERROR event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct RequestFailure {
    pub(crate) class: FailureClass,
    pub(crate) begun: bool,
    /// The wait that the server asked for (`Retry-After`).
    pub(crate) after: Option<Duration>,
    /// The message for logs: the verb and the response. The log line adds the kind and the advice.
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The resource version or the continue token has expired (410).
    Expired,
    /// The server has not reached the resource version yet.
    VersionUnknown,
    /// The server refuses the request itself, for example a streaming list that it does not offer.
    Rejected,
    NotServed,
    Forbidden,
    Unauthorized,
    Throttled,
    Network,
    /// The server is starting and does not serve the request yet.
    Starting,
    /// The server, or an aggregated server behind it, is unavailable (502, 503, 504).
    Unavailable,
    /// Any other 5xx response.
    Server,
    Decode,
}

/// The messages of a starting server: the storage of a kind is not read (429), or its paths are not installed (503).
const STARTING: [&str; 2] = [
    "storage is (re)initializing",
    "before all known HTTP paths have been installed",
];
/// The longest wait for a server that is starting: it may be up before the five seconds that kube-apiserver asks for.
const STARTING_WAIT: Duration = Duration::from_secs(1);

impl RequestFailure {
    pub(crate) fn of(error: &Error) -> Self {
        let class = match error {
            error if is_starting(error) => FailureClass::Starting,
            Error::Expired(_) => FailureClass::Expired,
            error if error.is_version_too_large() => FailureClass::VersionUnknown,
            Error::Throttled { .. } => FailureClass::Throttled,
            Error::Forbidden(_) => FailureClass::Forbidden,
            Error::Unauthorized(_) => FailureClass::Unauthorized,
            Error::KindNotServed(_) | Error::NotFound(_) => FailureClass::NotServed,
            Error::Transport { .. } => FailureClass::Network,
            Error::Decode { .. } => FailureClass::Decode,
            error => match error.code() {
                // The 404 has no `Status`, so the address is wrong, or a proxy answered.
                Some(404) => FailureClass::Decode,
                Some(502..=504) => FailureClass::Unavailable,
                Some(code) if code >= 500 => FailureClass::Server,
                _ => FailureClass::Rejected,
            },
        };
        let starting = class == FailureClass::Starting;
        let after = error.retry_after();
        let message = error.brief();
        Self {
            class,
            begun: false,
            after: match starting {
                true => after.map(|after| after.min(STARTING_WAIT)),
                false => after,
            },
            message: match starting {
                true => format!("the server is starting: {message}"),
                false => message,
            },
        }
    }

    /// Classifies an error as [`of`](Self::of) does, for a response that had begun.
    pub(crate) fn within(error: &Error) -> Self {
        Self {
            begun: true,
            ..Self::of(error)
        }
    }

    /// Returns whether the failure may be due to an outage. A response that had begun came from a running server.
    pub(crate) fn is_outage(&self) -> bool {
        self.class.is_outage() && !self.begun
    }

    /// Returns the failure of a list that ended early without an error.
    pub(crate) fn cut() -> Self {
        Self {
            class: FailureClass::Network,
            begun: true,
            after: None,
            message: "a list ended early".to_owned(),
        }
    }
}

/// Returns whether the server refused the request because it is starting.
fn is_starting(error: &Error) -> bool {
    let status = error
        .status()
        .filter(|status| matches!(status.code, 429 | 503));
    status.is_some_and(|status| STARTING.iter().any(|text| status.message.contains(text)))
}

/// Returns whether a connection was closed because nothing came over it, not even replies to pings.
pub(crate) fn is_timeout(error: &Error) -> bool {
    matches!(error, Error::Transport { cause, .. } if cause.contains("timed out"))
}

impl FailureClass {
    pub(crate) fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Starting | Self::Unavailable | Self::Server
        )
    }

    /// Returns whether the server examined the request and refused it, so that it must be up.
    pub(crate) fn is_refusal(self) -> bool {
        !self.is_outage() && self != Self::Decode
    }

    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Expired | Self::VersionUnknown => Reason::Expired,
            Self::Rejected => Reason::Rejected,
            Self::NotServed => Reason::NotServed,
            Self::Forbidden => Reason::Forbidden,
            Self::Unauthorized => Reason::Unauthorized,
            Self::Throttled => Reason::Throttled,
            Self::Network => Reason::Network,
            Self::Starting => Reason::Starting,
            Self::Unavailable | Self::Server => Reason::Server,
            Self::Decode => Reason::Decode,
        }
    }
}
