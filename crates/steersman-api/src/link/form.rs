//! Machine: the form of a request on a link, and what the failure of one means.

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Parts, PathAndQuery};
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use tower::BoxError;

/// Whether the server said of a stream that it did not process it: because it closes the link, or refuses the
/// stream (RFC 9113, 6.8 and 8.7).
pub(super) fn refusal(error: &hyper::Error) -> (bool, bool) {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let remote = error.is_remote();
            return (remote && error.is_go_away(), remote && refused);
        }
        source = error.source();
    }
    (false, false)
}

/// The request as HTTP/1.1 has it: the path alone, and the server's name as a header.
pub(super) fn origin_form(request: Request<Bytes>) -> Result<Request<Full<Bytes>>, BoxError> {
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
