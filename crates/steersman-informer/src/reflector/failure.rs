//! Machine: what an error of a list or a watch means to the reflector.

use std::time::Duration;

use steersman_api::Error;

use crate::state::Reason;

/// A failed request, or an ERROR event.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    /// How long the server asked to wait.
    pub(crate) after: Option<Duration>,
    /// For people; names the verb and what came back. The kind is named by who logs it, and
    /// whoever declared the informer knows better advice than the error does.
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
    Server,
    Decode,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        let class = match error {
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
                Some(code) if code >= 500 => Class::Server,
                _ => Class::Rejected,
            },
        };
        Self {
            class,
            after: error.retry_after(),
            message: error.brief(),
        }
    }

    /// A page that ended without its end, and without an error.
    pub(crate) fn cut() -> Self {
        Self {
            class: Class::Network,
            after: None,
            message: "a list ended early".to_owned(),
        }
    }
}

impl Class {
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Expired | Self::VersionUnknown => Reason::Expired,
            Self::Rejected => Reason::Rejected,
            Self::NotServed => Reason::NotServed,
            Self::Forbidden => Reason::Forbidden,
            Self::Unauthorized => Reason::Unauthorized,
            Self::Throttled => Reason::Throttled,
            Self::Network => Reason::Network,
            Self::Server => Reason::Server,
            Self::Decode => Reason::Decode,
        }
    }
}
