//! Words: a call of a webhook before it is sent, and its answer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A URL, as configured.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
        /// The path, with its leading slash.
        path: String,
    },
}

/// One call of a webhook.
#[derive(Debug, Clone)]
pub struct Call {
    /// Identifies the call: the webhook and all of its body except the uid of the review. Equal
    /// keys are equal calls (ADM-1).
    pub key: String,
    /// The uid of the review.
    pub uid: String,
    /// The address.
    pub endpoint: Endpoint,
    /// The URL, which error messages name.
    pub url: String,
    /// Authorities of the webhook's certificate, in PEM; may be empty.
    pub ca: Bytes,
    /// The timeout of the call.
    pub timeout: Duration,
    /// The review.
    pub body: Bytes,
}

/// The calls that a verb needs the answers of before it can go on. Their order does not matter.
#[derive(Debug)]
pub struct PendingCalls {
    /// The calls.
    pub calls: Vec<Call>,
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The uid of the review that was sent.
    pub uid: String,
    /// The body of a successful response, or the reason why there is none.
    pub body: Result<Bytes, String>,
}

impl Endpoint {
    /// Reads a `clientConfig`. Without a URL and a Service the URL is empty, and every call fails.
    pub fn of(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        if !service.is_object() {
            return Self::Url(text(&config["url"]));
        }
        let path = text(&service["path"]);
        let port = service["port"].as_u64().unwrap_or(443);
        Self::Service {
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: u16::try_from(port).unwrap_or(443),
            path: if path.starts_with('/') {
                path
            } else {
                format!("/{path}")
            },
        }
    }

    /// Returns the certificates of a `clientConfig`.
    pub fn ca(config: &Value) -> Bytes {
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        STANDARD.decode(bundle).unwrap_or_default().into()
    }

    /// Returns the URL of the call, which error messages name.
    pub fn url(&self, timeout: Duration) -> String {
        let (url, joint) = match self {
            Self::Url(url) => {
                let joint = if url.contains('?') { '&' } else { '?' };
                let host = url.split_once("://").map_or("", |(_, rest)| rest);
                let bare = !host.contains(['/', '?']);
                (format!("{url}{}", if bare { "/" } else { "" }), joint)
            }
            Self::Service {
                namespace,
                name,
                port,
                path,
            } => (format!("https://{name}.{namespace}.svc:{port}{path}"), '?'),
        };
        format!("{url}{joint}timeout={}s", timeout.as_secs())
    }
}
