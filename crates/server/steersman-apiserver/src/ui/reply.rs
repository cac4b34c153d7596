//! Words: the answers of the page, with the headers that protect them.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde::Serialize;

pub(crate) type UiResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The headers of every answer: it loads and runs only what the server itself serves, no other page may show or read
/// it, and no cache keeps it.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` a browser would send forms with the origin `null`.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) fn html(status: StatusCode, page: String) -> UiResponse {
    whole(status, "text/html; charset=utf-8", page)
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> UiResponse {
    match serde_json::to_string(value) {
        Ok(text) => whole(status, "application/json", text),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

pub(crate) fn text(status: StatusCode, text: String) -> UiResponse {
    whole(status, "text/plain; charset=utf-8", text)
}

/// Returns one of the files of the page.
pub(crate) fn file(content_type: &'static str, content: &'static str) -> UiResponse {
    whole(StatusCode::OK, content_type, content)
}

/// Sends the browser to another address of the page, after a form has been carried out.
pub(crate) fn see_other(path: &'static str) -> UiResponse {
    let mut response = text(StatusCode::SEE_OTHER, String::new());
    let location = HeaderValue::from_static(path);
    response.headers_mut().insert(header::LOCATION, location);
    response
}

pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> UiResponse {
    let frames = events.map(|event| Ok(Frame::data(event)));
    let body = StreamBody::new(frames).boxed_unsync();
    protected(StatusCode::OK, "text/event-stream", body)
}

fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> UiResponse {
    protected(status, content_type, Full::new(body.into()).boxed_unsync())
}

fn protected(
    status: StatusCode,
    content_type: &'static str,
    body: UnsyncBoxBody<Bytes, Infallible>,
) -> UiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
