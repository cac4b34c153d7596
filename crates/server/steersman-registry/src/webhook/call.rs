//! Words: a webhook call that a verb needs, and the response to this call.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, percent_decode_str, percent_encode};
use serde_json::Value;
use steersman_apimachinery::go;

use crate::values::text;

/// The bytes that Go's `URL.EscapedPath` percent-encodes in a path, so that error messages have the same URL.
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

/// The address of a webhook: a URL, or a Service in the cluster.
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
        /// The path of the URL that is called (`clientConfig.service.path`).
        path: String,
    },
}

/// A POST to a webhook that a verb needs. The verb does not send it; its caller does, and then runs the verb again.
#[derive(Debug, Clone)]
pub struct WebhookCall {
    /// The webhook and the body as text, without the uid of the review. Calls with the same key are equal, so that a
    /// response belongs to all of them (ADM-1).
    pub key: String,
    /// The uid of the review in `body`, which the webhook's response must repeat.
    pub uid: String,
    /// The address to which the call is sent.
    pub endpoint: WebhookAddress,
    /// The URL of the call, for error messages.
    pub url: String,
    /// The certificate authorities that the webhook's certificate is verified with, in PEM; empty without a `caBundle`.
    pub ca: Bytes,
    /// The time to wait for the response, from the start of the call.
    pub timeout: Duration,
    /// The AdmissionReview or ConversionReview to send.
    pub body: Bytes,
}

/// The error of a verb that has stopped because it needs webhook calls. The verb runs again with their responses.
#[derive(Debug)]
pub struct PendingCalls {
    /// The calls, in any order; they may be sent at the same time.
    pub calls: Vec<WebhookCall>,
}

/// The response to a [`WebhookCall`], or the failure of the call.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The uid of the review in the call, which a valid response repeats.
    pub uid: String,
    /// The body of a response with a status code of success, or the reason for which the call failed.
    pub body: Result<Bytes, String>,
}

impl WebhookAddress {
    /// Reads the `clientConfig` of a webhook. If it has neither a URL nor a Service, the result is an empty URL, to
    /// which every call fails.
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
                // Makes the scheme lowercase, as Go's URL parser does.
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
        // `percent_decode_str` keeps a percent sign without two digits; validation has refused such URLs.
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
