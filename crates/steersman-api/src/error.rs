//! Words: the errors of requests to an api-server, which callers branch on.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

pub use kube_core::Status;
use thiserror::Error;

use crate::asked::Asked;

mod predicates;

/// Why a request to an api-server, or the way to one, failed.
///
/// Each answer of a server is one variant to branch on, mostly through the predicates; it carries
/// what was asked and the server's [`Status`]. Every error prints what was asked, of whom, and
/// what came back, on one line.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No configuration was found in any of the usual places.
    #[error(
        "no Kubernetes configuration found (looked at {looked_at}): set KUBECONFIG to a \
         kubeconfig file, or run inside a pod that has a service account"
    )]
    NoConfig {
        /// The places, for people.
        looked_at: String,
    },
    /// There is a configuration, and it is unusable.
    #[error("{place}: {problem}")]
    Config {
        /// The file, or the part of the environment, that is wrong.
        place: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// The request cannot be sent as it is: the caller has to change it.
    #[error("could not {asked}: {problem}")]
    InvalidRequest {
        /// What was asked.
        asked: Box<Asked>,
        /// What is wrong with it.
        problem: String,
    },
    /// 404: there is no such object.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// 409 AlreadyExists: an object of this name is there already.
    #[error("{0}")]
    AlreadyExists(Box<Refusal>),
    /// 409 Conflict: the object has changed since it was read, or a precondition failed.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// 410: the version or the continue token asked for is no longer available.
    #[error("{0}")]
    Expired(Box<Refusal>),
    /// 422: the object, or the change to it, is not valid.
    #[error("{0}")]
    Invalid(Box<Refusal>),
    /// 429: the server asks its clients to slow down.
    #[error("{refusal}")]
    Throttled {
        /// How long to wait, where the server said so.
        after: Option<Duration>,
        /// The rest of the answer.
        refusal: Box<Refusal>,
    },
    /// 403: the server knows who asks and does not allow it.
    #[error("{0}; grant it with RBAC")]
    Forbidden(Box<Refusal>),
    /// 401: the server does not know who asks.
    #[error("{0}; renew the credentials of the kubeconfig or of the service account")]
    Unauthorized(Box<Refusal>),
    /// 404 of a whole collection: the server does not serve this kind.
    #[error("{refusal}; install the definition of {kind}, or ask for a version that is served", refusal = .0, kind = .0.asked.kind())]
    KindNotServed(Box<Refusal>),
    /// Any other refusal: 400, 405, 415, 5xx, and a 404 that does not come from a Kubernetes API server.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The server could not be reached, or the connection broke: whether it did what was asked is
    /// unknown.
    #[error("could not {asked}: {}{cause}", endpoint_prefix(.endpoint.as_deref()))]
    Transport {
        /// What was asked.
        asked: Box<Asked>,
        /// The address of the server, where it is known.
        endpoint: Option<String>,
        /// What happened, down to its root.
        cause: String,
    },
    /// The answer is not what it should be.
    #[error("could not {asked}: the answer does not decode: {problem}")]
    Decode {
        /// What was asked.
        asked: Box<Asked>,
        /// What is wrong with the answer; never its content.
        problem: String,
    },
}

/// An answer that refuses what was asked.
#[derive(Clone, Debug)]
pub struct Refusal {
    asked: Asked,
    status: Status,
    retry_after: Option<Duration>,
}

const NOT_KUBERNETES: &str = "the address does not look like a Kubernetes API server";

// ===== impl Refusal =====

impl Refusal {
    /// What was asked.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The server's answer; made up from the HTTP status where its body held none.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What the server answered, without what was asked.
    fn answer(&self) -> String {
        let Status {
            code,
            reason,
            message,
            ..
        } = &self.status;
        let mut text = format!("the server answered {code}");
        for (before, part) in [(" ", reason), (": ", message)] {
            if !part.is_empty() {
                text.push_str(before);
                text.push_str(part);
            }
        }
        text
    }

    /// How long the server asked to wait (its `Retry-After`, or `details.retryAfterSeconds`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.asked, self.answer())
    }
}

// ===== impl Error =====

impl Error {
    /// The error that an answer means: its HTTP code, its `Status` and its `Retry-After`.
    ///
    /// Useful to those who make errors for tests, or read a `Status` from elsewhere.
    #[must_use]
    pub fn from_status(asked: Asked, status: Status, retry_after: Option<Duration>) -> Self {
        let hinted = status.details.as_ref().map(|d| d.retry_after_seconds);
        let hinted = hinted
            .filter(|s| *s > 0)
            .map(|s| Duration::from_secs(s.into()));
        let after = retry_after.or(hinted);
        let (code, reason) = (status.code, status.reason.clone());
        // A refusal that names no object is about the path, so about the kind.
        let names_an_object = status.details.as_ref().is_some_and(|d| !d.name.is_empty());
        let refusal = Box::new(Refusal {
            asked,
            status,
            retry_after: after,
        });
        match (reason.as_str(), code) {
            ("AlreadyExists", _) => Self::AlreadyExists(refusal),
            ("Conflict", _) | (_, 409) => Self::Conflict(refusal),
            ("Expired" | "Gone", _) | (_, 410) => Self::Expired(refusal),
            ("TooManyRequests", _) | (_, 429) => Self::Throttled { after, refusal },
            ("NotFound", _) | (_, 404) if names_an_object => Self::NotFound(refusal),
            ("NotFound", _) | (_, 404) => Self::KindNotServed(refusal),
            ("Invalid", _) | (_, 422) => Self::Invalid(refusal),
            ("Forbidden", _) | (_, 403) => Self::Forbidden(refusal),
            ("Unauthorized", _) | (_, 401) => Self::Unauthorized(refusal),
            _ => Self::Refused(refusal),
        }
    }

    /// The error of an HTTP answer that is not a success, from its body.
    pub(crate) fn from_answer(
        asked: Asked,
        code: u16,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Self {
        let parsed = parse_status(body);
        // Every Kubernetes API server answers with a Status, or with the line of Go's router.
        let foreign = parsed.is_none() && code == 404 && is_foreign(body);
        let mut status = parsed.unwrap_or_else(|| Status {
            message: plain_text(body),
            ..Status::default()
        });
        if status.code == 0 {
            status.code = code;
        }
        if foreign {
            let said = std::mem::take(&mut status.message);
            status.message = NOT_KUBERNETES.to_owned();
            if !said.is_empty() {
                status.message = format!("{said} ({NOT_KUBERNETES})");
            }
            return Self::Refused(Box::new(Refusal {
                asked,
                status,
                retry_after,
            }));
        }
        Self::from_status(asked, status, retry_after)
    }

    /// The error of a request that got no answer.
    pub(crate) fn from_client(asked: Asked, error: kube_client::Error) -> Self {
        let (endpoint, cause) = match error {
            kube_client::Error::Service(boxed) => match boxed.downcast::<Unreachable>() {
                Ok(unreachable) => (Some(unreachable.endpoint), chain(&*unreachable.source)),
                Err(other) => (None, chain(&*other)),
            },
            other => (None, chain(&other)),
        };
        Self::Transport {
            asked: Box::new(asked),
            endpoint,
            cause,
        }
    }

    pub(crate) fn transport(asked: &Asked, cause: impl Into<String>) -> Self {
        Self::Transport {
            asked: Box::new(asked.clone()),
            endpoint: None,
            cause: cause.into(),
        }
    }

    pub(crate) fn decode(asked: &Asked, problem: impl Into<String>) -> Self {
        Self::Decode {
            asked: Box::new(asked.clone()),
            problem: problem.into(),
        }
    }

    pub(crate) fn invalid_request(asked: Asked, problem: impl Into<String>) -> Self {
        Self::InvalidRequest {
            asked: Box::new(asked),
            problem: problem.into(),
        }
    }

    /// The refusal behind this error, if a server answered.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::NotFound(refusal)
            | Self::AlreadyExists(refusal)
            | Self::Conflict(refusal)
            | Self::Expired(refusal)
            | Self::Invalid(refusal)
            | Self::Throttled { refusal, .. }
            | Self::Forbidden(refusal)
            | Self::Unauthorized(refusal)
            | Self::KindNotServed(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::NoConfig { .. }
            | Self::Config { .. }
            | Self::InvalidRequest { .. }
            | Self::Transport { .. }
            | Self::Decode { .. } => None,
        }
    }

    /// What was asked, where a request was made.
    #[must_use]
    pub fn asked(&self) -> Option<&Asked> {
        match self {
            Self::InvalidRequest { asked, .. }
            | Self::Transport { asked, .. }
            | Self::Decode { asked, .. } => Some(asked),
            Self::NoConfig { .. } | Self::Config { .. } => None,
            refused => refused.refusal().map(Refusal::asked),
        }
    }

    /// What happened, without the kind and without advice, for those who name the kind and know
    /// better advice: `watch failed: the server answered 403 Forbidden: …`.
    #[must_use]
    pub fn brief(&self) -> String {
        let Some(asked) = self.asked() else {
            return self.to_string();
        };
        let outcome = match self {
            Self::Transport {
                endpoint, cause, ..
            } => format!("{}{cause}", endpoint_prefix(endpoint.as_deref())),
            Self::Decode { problem, .. } => format!("the answer does not decode: {problem}"),
            Self::InvalidRequest { problem, .. } => problem.clone(),
            refused => refused
                .refusal()
                .map_or_else(|| refused.to_string(), Refusal::answer),
        };
        format!("{} failed: {outcome}", asked.brief())
    }

    /// The server's `Status`, if a server answered.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.refusal().map(Refusal::status)
    }

    /// The HTTP code, if a server answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|s| s.code)
    }

    /// How long the server asked to wait before another attempt.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(Refusal::retry_after)
    }
}

/// A transport error, and the endpoint it happened with.
#[derive(Debug, Error)]
#[error("{endpoint} cannot be reached")]
pub(crate) struct Unreachable {
    pub(crate) endpoint: String,
    pub(crate) source: Box<dyn StdError + Send + Sync>,
}

/// Reads a `Status` from a body, pretty-printed or not.
pub(crate) fn parse_status(body: &[u8]) -> Option<Status> {
    #[derive(serde::Deserialize)]
    struct Tagged {
        kind: String,
    }
    let tagged: Tagged = serde_json::from_slice(body).ok()?;
    let status = serde_json::from_slice(body).ok()?;
    (tagged.kind == "Status").then_some(status)
}

/// The beginning of a body that is plain text, such as `404 page not found`.
///
/// Anything that looks structured stays out: an error body may quote an object.
fn plain_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default().trim();
    if line.starts_with(['{', '[', '<']) {
        return String::new();
    }
    line.chars().take(120).collect()
}

/// Text that no Kubernetes API server answers: a page of another web server, or of a proxy.
fn is_foreign(body: &[u8]) -> bool {
    let text = body.trim_ascii();
    !text.is_empty()
        && text != b"404 page not found"
        && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err()
}

fn endpoint_prefix(endpoint: Option<&str>) -> String {
    endpoint.map_or_else(String::new, |e| format!("{e} cannot be reached: "))
}

/// An error and its sources on one line, without the repetitions that nested displays bring.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;
