//! Machine: what an error of a list or a watch means to the reflector.

use std::time::Duration;

use steersman_api::Error;

use crate::state::Reason;

/// A failed request, or an ERROR event.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    /// Whether the answer had begun when it failed.
    pub(crate) begun: bool,
    /// How long the server asked to wait.
    pub(crate) after: Option<Duration>,
    /// The message for logs; names the verb and the answer. The log line adds the kind and the advice.
    pub(crate) message: String,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// 410: the version or the token is gone.
    Expired,
    /// The server has not reached the version yet: it is unknown there.
    VersionUnknown,
    /// The request is refused as it is; of a streaming list: the server does not offer it.
    Rejected,
    /// The server does not serve the kind.
    NotServed,
    Forbidden,
    Unauthorized,
    Throttled,
    Network,
    /// The server is starting and does not serve this request yet.
    Starting,
    /// 502, 503 or 504: the server, or what it hands the request on to, is not there at the moment.
    Unavailable,
    /// Any other 5xx.
    Server,
    Decode,
}

/// What a server says that is starting: of a kind whose storage it has not read yet (429), and of all requests until its
/// paths are known (503).
const STARTING: [&str; 2] = [
    "storage is (re)initializing",
    "before all known HTTP paths have been installed",
];
/// No server that is starting is left alone for longer, whatever it asks: kube-apiserver asks for five seconds.
const STARTING_WAIT: Duration = Duration::from_secs(1);

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        let class = match error {
            error if is_starting(error) => Class::Starting,
            Error::Expired(_) => Class::Expired,
            error if error.is_version_too_large() => Class::VersionUnknown,
            Error::Throttled { .. } => Class::Throttled,
            Error::Forbidden(_) => Class::Forbidden,
            Error::Unauthorized(_) => Class::Unauthorized,
            Error::KindNotServed(_) | Error::NotFound(_) => Class::NotServed,
            Error::Transport { .. } => Class::Network,
            Error::Decode { .. } => Class::Decode,
            error => match error.code() {
                // A page of something else: the address is wrong, or a proxy stands before it.
                Some(404) => Class::Decode,
                Some(502..=504) => Class::Unavailable,
                Some(code) if code >= 500 => Class::Server,
                _ => Class::Rejected,
            },
        };
        let starting = class == Class::Starting;
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

    /// The same, of an answer that had begun.
    pub(crate) fn within(error: &Error) -> Self {
        Self {
            begun: true,
            ..Self::of(error)
        }
    }

    /// Whether all requests fail so while a server is away. An answer that has begun came from a server that is not.
    pub(crate) fn is_outage(&self) -> bool {
        self.class.is_outage() && !self.begun
    }

    /// A page that ended without its end, and without an error.
    pub(crate) fn cut() -> Self {
        Self {
            class: Class::Network,
            begun: true,
            after: None,
            message: "a list ended early".to_owned(),
        }
    }
}

/// Whether a server that is starting refused the request.
fn is_starting(error: &Error) -> bool {
    let status = error
        .status()
        .filter(|status| matches!(status.code, 429 | 503));
    status.is_some_and(|status| STARTING.iter().any(|text| status.message.contains(text)))
}

/// Whether a broken connection was given up because nothing came over it, not even the answers to its pings.
pub(crate) fn is_timeout(error: &Error) -> bool {
    matches!(error, Error::Transport { cause, .. } if cause.contains("timed out"))
}

impl Class {
    /// Whether all requests fail so while a server is away.
    pub(crate) fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Starting | Self::Unavailable | Self::Server
        )
    }

    /// Whether the answer comes from a server that is up: it looked at the request and refused it.
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
