//! Words: a webhook call that is still to be sent, and the answer to it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, percent_decode_str, percent_encode};
use serde_json::Value;
use steersman_apimachinery::go;

use crate::values::text;

/// The bytes in a path that Go's `URL.EscapedPath` percent-encodes.
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

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAddress {
    /// The URL in the webhook's `clientConfig`.
    Url(String),
    /// A Service in the cluster (`clientConfig.service`).
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The port of the Service; 443 by default.
        port: u16,
        /// The path of the request, from `clientConfig.service.path`.
        path: String,
    },
}

/// One call of a webhook, which the caller of the verb sends.
#[derive(Debug, Clone)]
pub struct WebhookCall {
    /// Identifies the call by the webhook and the body, without the uid of the review. Calls with the same key are
    /// equal (ADM-1).
    pub key: String,
    /// The uid of the review, which the answer must repeat.
    pub uid: String,
    /// Where to send the call.
    pub endpoint: WebhookAddress,
    /// The URL of the call, for error messages.
    pub url: String,
    /// The authorities that may have signed the webhook's certificate, in PEM; may be empty.
    pub ca: Bytes,
    /// How long to wait for the answer.
    pub timeout: Duration,
    /// The AdmissionReview or ConversionReview to send.
    pub body: Bytes,
}

/// The webhook calls for which a verb has stopped; it runs again with their answers.
#[derive(Debug)]
pub struct PendingCalls {
    /// The calls, in any order; they may be made at the same time.
    pub calls: Vec<WebhookCall>,
}

/// The answer to a webhook call.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The uid of the review that was sent.
    pub uid: String,
    /// The body of a response with a code of success, or why the call failed.
    pub body: Result<Bytes, String>,
}

impl WebhookAddress {
    /// Reads a `clientConfig`. Without a URL and a Service, the result is an empty URL, to which every call fails.
    pub fn of(config: &Value) -> Self {
        let service = &config["service"];
        if !service.is_object() {
            return Self::Url(text(&config["url"]).to_owned());
        }
        let port = service["port"].as_u64().unwrap_or(443);
        Self::Service {
            namespace: text(&service["namespace"]).to_owned(),
            name: text(&service["name"]).to_owned(),
            port: u16::try_from(port).unwrap_or(443),
            path: text(&service["path"]).to_owned(),
        }
    }

    /// Returns the `caBundle` of a `clientConfig`, decoded to PEM; empty if it is absent or no base64.
    pub fn ca(config: &Value) -> Bytes {
        let bundle = text(&config["caBundle"]);
        STANDARD.decode(bundle).unwrap_or_default().into()
    }

    /// Returns the URL of the call, for error messages. As in kube-apiserver, `.`, `..` and double slashes are removed
    /// from its path, so that Go's router does not redirect the call.
    pub fn url(&self, timeout: Duration) -> String {
        let (host, path) = match self {
            Self::Url(url) => {
                let start = url.find("://").map_or(0, |at| at + "://".len());
                let end = url[start..].find(['/', '?', '#']);
                let (host, rest) = url.split_at(end.map_or(url.len(), |at| start + at));
                let path = rest.split(['?', '#']).next().unwrap_or_default();
                let (scheme, host) = host.split_at(start);
                // Go's URL parser makes the scheme lowercase, too.
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
        // A percent sign without two digits stays as it is; URLs with one are not accepted into the store.
        let path: Vec<u8> = percent_decode_str(path).collect();
        let path = clean(&path);
        let path = percent_encode(&path, ESCAPED);
        format!("{host}{path}?timeout={}s", timeout.as_secs())
    }
}

/// Cleans an absolute path like Go's `path.Clean`: removes empty segments, `.`, `..` and a slash at the end.
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
