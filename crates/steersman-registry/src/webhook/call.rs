//! Words: a question to a webhook before it is sent, and what came back.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// Where a webhook listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A URL, as it was configured.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
        /// The path, with its slash.
        path: String,
    },
}

/// One request to a webhook.
#[derive(Debug, Clone)]
pub struct Call {
    /// Tells the question: the webhook and all it is told but the uid of the review. The same key
    /// is the same question (ADM-1).
    pub key: String,
    /// The uid of the review.
    pub uid: String,
    /// Where to.
    pub endpoint: Endpoint,
    /// Certificates in PEM that the webhook's own must descend from; may be empty.
    pub ca: Vec<u8>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The review.
    pub body: Bytes,
}

/// What has to be asked before a verb can go on: all of it, in any order.
#[derive(Debug)]
pub struct Question {
    /// The requests.
    pub calls: Vec<Call>,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The uid of the review that was sent.
    pub uid: String,
    /// The body of a successful response, or why there is none.
    pub body: Result<Bytes, String>,
}

impl Endpoint {
    /// Reads a `clientConfig`. Without a URL and without a Service there is an empty URL, which
    /// nobody answers.
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

    /// The certificates of a `clientConfig`.
    pub fn ca(config: &Value) -> Vec<u8> {
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        STANDARD.decode(bundle).unwrap_or_default()
    }

    /// The URL that a request goes to, and that failures name.
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
