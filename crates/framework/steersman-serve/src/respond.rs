//! Driver: answers one request: finds its route, checks access, reads the body, calls the handler.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ALLOW, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use steersman_object::panic_text;
use tokio::time::timeout;
use tracing::{error, warn};

use crate::error::BoxError;
use crate::routes::{Route, Routes, text_response};
use crate::sign_in::{is_of_browser, to_form};

impl Routes {
    /// Returns the response to a request without a connection, in this process. A handler that takes longer than
    /// `limit` is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the handler at its current await.
    pub async fn answer<B>(&self, request: Request<B>, limit: Duration) -> Response<Bytes>
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let Some(route) = self.find(request.uri().path()) else {
            return text_response(StatusCode::NOT_FOUND, "404 page not found");
        };
        if !route.takes(request.method()) {
            let mut refused = text_response(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
            let allow = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allow);
            return refused;
        }
        let path = route.path();
        // The call of the handler and its future can both panic, so both are inside `catch_unwind`.
        let answer = AssertUnwindSafe(async { answer(route, request).await }).catch_unwind();
        match timeout(limit, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(payload)) => {
                // SERVE-3: a panic of the handler becomes a 500.
                let panic = panic_text(&*payload);
                error!(path, panic, "a handler panicked: correct it");
                text_response(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }
            Err(_) => {
                warn!(
                    path,
                    ?limit,
                    "a request took too long, and its handler was dropped"
                );
                text_response(StatusCode::SERVICE_UNAVAILABLE, "the request took too long")
            }
        }
    }
}

async fn answer<B>(route: &Route, request: Request<B>) -> Response<Bytes>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send,
{
    let (head, body) = request.into_parts();
    let path = route.path();
    // SERVE-5: a refused client costs no body.
    if let Some(access) = &route.access
        && let Err(refused) = access.admit(&head).await
    {
        let is_unknown = refused.status() == StatusCode::UNAUTHORIZED;
        let form = route.sign_in.as_ref();
        return match form.filter(|_| is_unknown && is_of_browser(&head)) {
            Some(form) => to_form(form, path, &head),
            None => refused,
        };
    }
    let body = match route.largest_body() {
        None => Bytes::new(),
        Some(largest) => match Limited::new(body, largest).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let text = format!("the body is larger than {largest} bytes");
                return text_response(StatusCode::PAYLOAD_TOO_LARGE, text);
            }
            Err(_) => return text_response(StatusCode::BAD_REQUEST, "the body does not arrive"),
        },
    };
    let request = Request::from_parts(head, body);
    route.handler.handle(request).await
}
