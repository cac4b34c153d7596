//! Handle: responses with bodies that arrive in parts.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Response, StatusCode};
use parking_lot::Mutex;

use crate::routes::response;

pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The parts of a response's body. An extension of the response, because handlers return complete bodies.
#[derive(Clone)]
pub(crate) struct StreamedBody(Arc<Mutex<Option<BodyStream>>>);

impl StreamedBody {
    /// Removes and returns the parts. The first call gets them.
    pub(crate) fn take(&self) -> Option<BodyStream> {
        self.0.lock().take()
    }
}

/// Returns a response with a stream of parts as its body, each sent when the stream yields it.
///
/// The request counts as in progress until the stream ends or the client leaves. A stop of the server ends the stream,
/// whatever its client has read: at once, or after the responses to the other requests of its connection.
/// `request_timeout` does not bound it.
pub fn stream_response(
    content_type: &'static str,
    parts: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Bytes> {
    let mut response = response(StatusCode::OK, content_type, Bytes::new());
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let parts: BodyStream = Box::pin(parts);
    let parts = StreamedBody(Arc::new(Mutex::new(Some(parts))));
    response.extensions_mut().insert(parts);
    response
}
