//! Machine: converts requests to HTTP/1.1, and decides whether a failed request was processed.

use std::error::Error as _;
use std::iter::successors;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Parts, PathAndQuery};
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use tower::BoxError;

/// Returns whether the server closed the connection before it processed the request (GOAWAY), and whether it refused
/// the stream (REFUSED_STREAM); RFC 9113, 6.8 and 8.7.
pub(crate) fn refusal(error: &hyper::Error) -> (bool, bool) {
    let mut causes = successors(error.source(), |&cause| cause.source());
    let stream = causes.find_map(|cause| cause.downcast_ref::<h2::Error>());
    stream
        .filter(|error| error.is_remote())
        .map_or((false, false), |error| {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            (error.is_go_away(), refused)
        })
}

/// Converts a request to HTTP/1.1: its target is only the path, and the server's name is a header.
pub(crate) fn origin_form(request: Request<Bytes>) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = request.map(Full::new);
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().entry(HOST).or_insert(host);
    }
    let mut parts = Parts::default();
    parts.path_and_query = request
        .uri()
        .path_and_query()
        .cloned()
        .or(Some(PathAndQuery::from_static("/")));
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(request)
}
