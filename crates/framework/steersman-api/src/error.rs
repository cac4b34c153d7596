//! Words: the errors of requests to an API server.

use std::error::Error as StdError;
use std::time::Duration;

pub use kube_core::Status;
use steersman_transport::chain;
use thiserror::Error;

use crate::request_info::RequestInfo;

mod predicates;

/// An error of a request to an API server, or of its connection.
///
/// Each class of answer has a variant, mostly tested with a predicate, and holds the request and the server's
/// [`Status`]. `Display` prints the request, the server and the problem on one line.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No configuration was found in the usual places.
    #[error(
        "no Kubernetes configuration found (looked at {looked_at}): set KUBECONFIG to a \
         kubeconfig file, or run inside a pod that has a service account"
    )]
    NoConfig {
        /// The places that were searched, for people.
        looked_at: String,
    },
    /// A configuration was found and cannot be used.
    #[error("{place}: {problem}")]
    Config {
        /// The file, or the part of the environment, with the problem.
        place: String,
        /// The problem, and its remedy.
        problem: String,
    },
    /// The request is invalid, so it was not sent: the caller has to change it.
    #[error("could not {info}: {problem}")]
    InvalidRequest {
        /// The request.
        info: Box<RequestInfo>,
        /// The problem with the request.
        problem: String,
    },
    /// 404: the object is absent.
    #[error("{0}")]
    NotFound(Box<ApiRefusal>),
    /// 409 AlreadyExists: an object of this name exists.
    #[error("{0}")]
    AlreadyExists(Box<ApiRefusal>),
    /// 409 Conflict: the object has changed since it was read, or a precondition failed.
    #[error("{0}")]
    Conflict(Box<ApiRefusal>),
    /// 410: the requested version or continue token is no longer available.
    #[error("{0}")]
    Expired(Box<ApiRefusal>),
    /// 422: the object, or the change to it, is invalid.
    #[error("{0}")]
    Invalid(Box<ApiRefusal>),
    /// 429: the server throttles its clients.
    #[error("{refusal}")]
    Throttled {
        /// The time to wait, if the server named one.
        after: Option<Duration>,
        /// The refusal.
        refusal: Box<ApiRefusal>,
    },
    /// 403: the server does not allow the request.
    #[error("{0}; grant it with RBAC")]
    Forbidden(Box<ApiRefusal>),
    /// 401: the server does not accept the credentials.
    #[error("{0}; renew the credentials of the kubeconfig or of the service account")]
    Unauthorized(Box<ApiRefusal>),
    /// 404 of a whole collection: the server does not serve this kind.
    #[error("{refusal}; install the definition of {kind}, or ask for a version that is served", refusal = .0, kind = .0.info.kind())]
    KindNotServed(Box<ApiRefusal>),
    /// Any other refusal: 400, 405, 415, 5xx, and a 404 that does not come from a Kubernetes API server.
    #[error("{0}")]
    Refused(Box<ApiRefusal>),
    /// The server could not be reached, or the connection broke. It is unknown whether the server executed the request.
    #[error("could not {info}: {}{cause}", endpoint_prefix(.endpoint.as_deref()))]
    Transport {
        /// The request.
        info: Box<RequestInfo>,
        /// The address of the server, if it is known.
        endpoint: Option<String>,
        /// The cause, down to its root.
        cause: String,
    },
    /// The answer does not decode.
    #[error("could not {info}: the answer does not decode: {problem}")]
    Decode {
        /// The request.
        info: Box<RequestInfo>,
        /// The problem with the answer, never its content.
        problem: String,
    },
}

/// An answer that refuses a request.
#[derive(Clone, Debug, derive_more::Display)]
#[display("could not {info}: {}", self.answer())]
pub struct ApiRefusal {
    info: RequestInfo,
    status: Status,
    retry_after: Option<Duration>,
}

const NOT_KUBERNETES: &str = "the address does not look like a Kubernetes API server";

impl ApiRefusal {
    /// Returns the request.
    pub fn request_info(&self) -> &RequestInfo {
        &self.info
    }

    /// Returns the server's `Status`, or a `Status` made of the HTTP status if the body has none.
    pub fn status(&self) -> &Status {
        &self.status
    }

    fn answer(&self) -> String {
        let status = &self.status;
        let mut text = format!("the server answered {}", status.code);
        for (before, part) in [(" ", &status.reason), (": ", &status.message)] {
            if !part.is_empty() {
                text.push_str(before);
                text.push_str(part);
            }
        }
        text
    }

    /// Returns the time to wait that the server named (`Retry-After`, or `details.retryAfterSeconds`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl Error {
    /// Makes the error of an answer from its `Status` and its `Retry-After`.
    ///
    /// Use it in tests, and for a `Status` from another source than an answer.
    pub fn from_status(info: RequestInfo, status: Status, retry_after: Option<Duration>) -> Self {
        let hinted = status.details.as_ref().map(|d| d.retry_after_seconds);
        let hinted = hinted
            .filter(|s| *s > 0)
            .map(|s| Duration::from_secs(s.into()));
        let after = retry_after.or(hinted);
        let (code, reason) = (status.code, status.reason.clone());
        // A 404 that names no object is about the path, so the server does not serve the kind.
        let names_an_object = status.details.as_ref().is_some_and(|d| !d.name.is_empty());
        let refusal = Box::new(ApiRefusal {
            info,
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

    /// Makes the error of an HTTP answer that is not a success, from its body.
    pub(crate) fn from_answer(
        info: RequestInfo,
        code: u16,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Self {
        let parsed = parse_status(body);
        // A Kubernetes API server answers with a `Status` or the text of Go's router; another text comes from another
        // server.
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
            return Self::Refused(Box::new(ApiRefusal {
                info,
                status,
                retry_after,
            }));
        }
        Self::from_status(info, status, retry_after)
    }

    /// Makes the error of a request without an answer.
    pub(crate) fn from_client(info: RequestInfo, error: kube_client::Error) -> Self {
        let (endpoint, cause) = match error {
            kube_client::Error::Service(boxed) => match boxed.downcast::<Unreachable>() {
                Ok(unreachable) => (Some(unreachable.endpoint), chain(&*unreachable.source)),
                Err(other) => (None, chain(&*other)),
            },
            other => (None, chain(&other)),
        };
        Self::Transport {
            info: Box::new(info),
            endpoint,
            cause,
        }
    }

    pub(crate) fn transport(info: &RequestInfo, cause: impl Into<String>) -> Self {
        Self::Transport {
            info: Box::new(info.clone()),
            endpoint: None,
            cause: cause.into(),
        }
    }

    pub(crate) fn decode(info: &RequestInfo, problem: impl Into<String>) -> Self {
        Self::Decode {
            info: Box::new(info.clone()),
            problem: problem.into(),
        }
    }

    pub(crate) fn config(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Config {
            place: place.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn invalid_request(info: RequestInfo, problem: impl Into<String>) -> Self {
        Self::InvalidRequest {
            info: Box::new(info),
            problem: problem.into(),
        }
    }

    /// Returns the refusal; `None` if no server answered.
    pub fn refusal(&self) -> Option<&ApiRefusal> {
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

    /// Returns the request; `None` if none was made.
    pub fn request_info(&self) -> Option<&RequestInfo> {
        match self {
            Self::InvalidRequest { info, .. }
            | Self::Transport { info, .. }
            | Self::Decode { info, .. } => Some(info),
            Self::NoConfig { .. } | Self::Config { .. } => None,
            refused => refused.refusal().map(ApiRefusal::request_info),
        }
    }

    /// Returns the problem without the kind and the remedy, for a caller that adds its own: `watch failed: the server
    /// answered 403 Forbidden: …`.
    pub fn brief(&self) -> String {
        let Some(info) = self.request_info() else {
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
                .map_or_else(|| refused.to_string(), ApiRefusal::answer),
        };
        format!("{} failed: {outcome}", info.brief())
    }

    /// Returns the server's `Status`; `None` if no server answered.
    pub fn status(&self) -> Option<&Status> {
        self.refusal().map(ApiRefusal::status)
    }

    /// Returns the HTTP code; `None` if no server answered.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|s| s.code)
    }

    /// Returns the time to wait before another attempt; `None` if the server named none.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(ApiRefusal::retry_after)
    }
}

/// A transport error with the address of the server.
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

/// Returns the beginning of a body that is plain text, such as `404 page not found`.
///
/// Structured text is left out, because an error body may quote an object.
fn plain_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default().trim();
    if line.starts_with(['{', '[', '<']) {
        return String::new();
    }
    line.chars().take(120).collect()
}

/// Returns whether a body comes from a proxy or another web server, and not from a Kubernetes API server.
fn is_foreign(body: &[u8]) -> bool {
    let text = body.trim_ascii();
    !text.is_empty()
        && text != b"404 page not found"
        && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err()
}

fn endpoint_prefix(endpoint: Option<&str>) -> String {
    endpoint.map_or_else(String::new, |e| format!("{e} cannot be reached: "))
}

#[cfg(test)]
mod tests;
