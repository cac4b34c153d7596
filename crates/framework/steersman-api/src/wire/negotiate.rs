//! Driver: requests protobuf where the client configuration and the request allow it, and encodes bodies in protobuf.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use kube_client::client::Body;
use steersman_object::Kind;
use steersman_protobuf::{MEDIA_TYPE, Message, encode_text, seal};
use tower::Service;

use super::{AnswerFuture, Wire};
use crate::encoding::{Negotiable, Negotiated, SharedEncoding};
use crate::metrics::HostMetrics;

/// Sends a request, in protobuf if it is [`Negotiable`].
pub(super) fn negotiate(
    encoding: &Arc<SharedEncoding>,
    metrics: Option<Arc<HostMetrics>>,
    wire: &mut Wire,
    mut request: Request<Body>,
) -> AnswerFuture {
    let negotiable = request.extensions_mut().remove::<Negotiable>();
    let negotiable = negotiable.filter(|_| encoding.is_protobuf());
    let mut negotiated = Negotiated {
        by: Some(Arc::clone(encoding)),
        metrics,
        asked_protobuf: negotiable.is_some(),
        ..Negotiated::default()
    };
    if let Some(negotiable) = negotiable {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(negotiable.accept));
        let object = negotiable.object;
        if let Some(bytes) = object.and_then(|(kind, json)| encoded(&kind, &json)) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            *request.body_mut() = Body::from(bytes);
            negotiated.sent_protobuf = true;
        }
    }
    let answer = wire.call(request);
    async move {
        let mut response = answer.await?;
        negotiated.is_protobuf = has_type(response.headers(), MEDIA_TYPE);
        let is_json = has_type(response.headers(), "application/json");
        if negotiated.asked_protobuf
            && response.status().is_success()
            && !negotiated.is_protobuf
            && !is_json
        {
            // Without a known content type, the body cannot be decoded.
            negotiated.fall_back("an answer is neither protobuf nor JSON by its content type");
        }
        response.extensions_mut().insert(negotiated);
        Ok(response)
    }
    .boxed()
}

/// Returns an object in protobuf; `None` if protobuf would lose a part of it, so that it is sent as JSON.
fn encoded(kind: &Kind, json: &[u8]) -> Option<Bytes> {
    let gvk = kind.gvk();
    let (api_version, kind) = (gvk.api_version(), gvk.kind());
    let encoded = encode_text(Message::of_kind(&api_version, kind)?, json).ok()?;
    let is_whole = encoded.unknown.is_none();
    is_whole.then(|| seal(&api_version, kind, &encoded.raw).into())
}

/// Returns whether the content type of an answer is this media type.
fn has_type(headers: &HeaderMap, media_type: &str) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let found = content_type.and_then(|value| value.split(';').next());
    found.is_some_and(|found| found.trim().eq_ignore_ascii_case(media_type))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn only_a_whole_object_is_encoded() {
        let kind = Kind::of::<ConfigMap>();
        let good =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
        assert!(encoded(&kind, good).is_some());
        for lossy in [
            r#"{"metadata":{"name":"a"},"fieldOfTomorrow":1}"#,
            r#"{"metadata":{"name":"a","fieldOfTomorrow":1}}"#,
            r#"{"metadata":{"name":"a"},"data":7}"#,
            "no JSON",
        ] {
            assert_eq!(encoded(&kind, lossy.as_bytes()), None, "{lossy}");
        }
    }

    #[test]
    fn the_type_of_an_answer_has_any_case_and_parameters() {
        let of = |value: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            has_type(&headers, MEDIA_TYPE)
        };
        assert!(of("application/vnd.kubernetes.protobuf;stream=watch"));
        assert!(of("Application/VND.kubernetes.protobuf; charset=utf-8"));
        assert!(!of("application/vnd.kubernetes.protobuf.v2") && !of("application/json"));
    }
}
