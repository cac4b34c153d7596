//! Words: a call of a webhook before it is sent, and the answer of the webhook.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, percent_decode_str, percent_encode};
use serde_json::Value;
use steersman_apimachinery::go;

/// The bytes that Go's `URL.EscapedPath` escapes in a path.
const ESCAPED: &AsciiSet = &go::QUERY
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAddress {
    /// The URL in the configuration of the webhook.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The port of the Service.
        port: u16,
        /// The path in the configuration of the webhook.
        path: String,
    },
}

/// One call of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookCall {
    /// Identifies the call by the webhook and the body, without the uid of the review. Calls with equal keys are equal
    /// (ADM-1).
    pub key: String,
    /// The uid of the review.
    pub uid: String,
    /// The address of the webhook.
    pub endpoint: WebhookAddress,
    /// The URL of the webhook, for error messages.
    pub url: String,
    /// The certificates of authorities that the webhook's certificate is checked with, in PEM; may be empty.
    pub ca: Bytes,
    /// The timeout of the call.
    pub timeout: Duration,
    /// The AdmissionReview or ConversionReview to send.
    pub body: Bytes,
}

/// The calls of webhooks that a verb needs the answers of before it can continue.
#[derive(Debug)]
pub struct PendingCalls {
    /// The calls without an answer, in any order.
    pub calls: Vec<WebhookCall>,
}

/// The answer of a webhook to a call.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The uid of the review that the call sent.
    pub uid: String,
    /// The body of a successful response, or the reason why the call failed.
    pub body: Result<Bytes, String>,
}

impl WebhookAddress {
    /// Reads a `clientConfig`. If it has neither a URL nor a Service, the URL is empty and every call fails.
    pub fn of(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        if !service.is_object() {
            return Self::Url(text(&config["url"]));
        }
        let port = service["port"].as_u64().unwrap_or(443);
        Self::Service {
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: u16::try_from(port).unwrap_or(443),
            path: text(&service["path"]),
        }
    }

    /// Returns the certificates of authorities in a `clientConfig`.
    pub fn ca(config: &Value) -> Bytes {
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        STANDARD.decode(bundle).unwrap_or_default().into()
    }

    /// Returns the URL of the call, for error messages. As in a kube-apiserver, its path is cleaned, so that Go's
    /// router does not redirect the call.
    pub fn url(&self, timeout: Duration) -> String {
        let (host, path) = match self {
            Self::Url(url) => {
                let start = url.find("://").map_or(0, |at| at + "://".len());
                let end = url[start..].find(['/', '?', '#']);
                let (host, rest) = url.split_at(end.map_or(url.len(), |at| start + at));
                let path = rest.split(['?', '#']).next().unwrap_or_default();
                let (scheme, host) = host.split_at(start);
                // Go's parser lowercases the scheme, too.
                (scheme.to_lowercase() + host, path)
            }
            Self::Service {
                namespace,
                name,
                port,
                path,
            } => (
                format!("https://{name}.{namespace}.svc:{port}"),
                path.as_str(),
            ),
        };
        // A percent sign without two digits stays unchanged; no stored URL has one.
        let path: Vec<u8> = percent_decode_str(path).collect();
        let path = clean(&path);
        let path = percent_encode(&path, ESCAPED);
        format!("{host}{path}?timeout={}s", timeout.as_secs())
    }
}

/// Cleans an absolute path as Go's `path.Clean` does: removes empty segments, `.`, `..` and the slash at the end.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    [b"/", segments.join(&b'/').as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_calls_are_cleaned_as_in_go() {
        for (written, called) in [
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("//failing", "/failing"),
            ("/a/../b", "/b"),
            ("/../../b/.", "/b"),
            ("/x/", "/x"),
            ("/x//y///z", "/x/y/z"),
            ("/...", "/..."),
            ("/a%20b", "/a%20b"),
            ("/a%2f%2Fb", "/a/b"),
            ("/a%2f..%2fb", "/b"),
            ("/ä~(!)", "/%C3%A4~%28%21%29"),
            ("/a:b@c=d", "/a:b@c=d"),
            ("/100%", "/100%25"),
        ] {
            let url = format!("https://[::1]:9443{written}");
            let of_url = WebhookAddress::of(&json!({"url": url}));
            let timeout = Duration::from_secs(7);
            assert_eq!(
                of_url.url(timeout),
                format!("https://[::1]:9443{called}?timeout=7s"),
                "{written}"
            );
            let service = json!({"namespace": "n", "name": "s", "path": written});
            let of_service = WebhookAddress::of(&json!({"service": service}));
            assert_eq!(
                of_service.url(timeout),
                format!("https://s.n.svc:443{called}?timeout=7s"),
                "{written}"
            );
        }
    }
}
