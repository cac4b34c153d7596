//! Driver: answers the HTTP requests to one webhook.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use steersman_api::clock::at;
use steersman_object::panic_text;
use steersman_serve::{json_response, text_response};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, error, error_span, warn};

use crate::context::AdmissionContext;
use crate::conversion::{self, Conversions};
use crate::handler::ErasedHandler;
use crate::metrics::OneWebhookMetrics;
use crate::request::AdmissionRequest;
use crate::response::AdmissionResponse;
use crate::review::{Review, read, write};
use crate::timeout::timeout_of;

/// The body size in bytes from which a conversion takes milliseconds and leaves the runtime's tasks.
const LARGE: usize = 256 << 10;

/// The path and the handler of an admission webhook.
pub(crate) struct WebhookEndpoint {
    pub(crate) path: Arc<str>,
    pub(crate) handler: Arc<dyn ErasedHandler>,
    pub(crate) metrics: OneWebhookMetrics,
}

/// The path of the conversion webhook, and the versions of its kinds.
pub(crate) struct Converter {
    pub(crate) path: &'static str,
    pub(crate) conversions: Conversions,
    pub(crate) metrics: OneWebhookMetrics,
}

impl Converter {
    /// Answers a conversion request. A large body is converted on a blocking thread.
    pub(crate) async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let start = Instant::now();
        let _in_flight = self.metrics.begin();
        let body = request.into_body();
        let conversions = self.conversions.clone();
        let converted = if body.len() < LARGE {
            Ok(conversion::answer(&conversions, &body))
        } else {
            spawn_blocking(move || conversion::answer(&conversions, &body)).await
        };
        let Ok((response, problem)) = converted else {
            // The blocking task was cancelled, because the runtime is shutting down.
            return text_response(StatusCode::SERVICE_UNAVAILABLE, "the webhook stops");
        };
        let code = if problem.is_none() { 200 } else { 400 };
        if let Some(problem) = problem {
            warn!(webhook = self.path, problem, "a conversion failed");
        }
        self.metrics.end(code, start.elapsed());
        json_response(StatusCode::OK, response.to_string())
    }
}

impl WebhookEndpoint {
    /// Answers an admission request. Each request with a review gets a review as its response (ADMIT-1).
    pub(crate) async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let start = Instant::now();
        let _in_flight = self.metrics.begin();
        let (code, response) = self.decided(request, start).await;
        self.metrics.end(code, start.elapsed());
        response
    }

    async fn decided(&self, request: Request<Bytes>, start: Instant) -> (u16, Response<Bytes>) {
        let content_type = request.headers().get(CONTENT_TYPE);
        if !content_type.is_some_and(is_json) {
            let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let text = "a review is sent with the content type application/json";
            return (code.as_u16(), text_response(code, text));
        }
        let timeout = request.uri().query().and_then(timeout_of);
        let deadline = timeout.and_then(|timeout| start.checked_add(timeout));
        let (version, uid, response) = match read(request.body()) {
            Ok(Review { version, request }) => {
                let uid = request.uid.clone();
                (version, uid, self.decide(request, deadline).await)
            }
            Err(unreadable) => {
                let problem = unreadable.problem;
                warn!(
                    webhook = &*self.path,
                    problem, "a request is no review and was refused"
                );
                let response = AdmissionResponse::errored(400, problem);
                (unreadable.version, unreadable.uid, response)
            }
        };
        let review = write(version, &uid, &response);
        (response.code(), json_response(StatusCode::OK, review))
    }

    /// Calls the handler, in a span with the log keys of controller-runtime.
    async fn decide(
        &self,
        request: AdmissionRequest,
        deadline: Option<Instant>,
    ) -> AdmissionResponse {
        let span = error_span!(
            "admission",
            webhook = &*self.path,
            webhookGroup = request.kind.group(),
            webhookKind = request.kind.kind(),
            namespace = request.namespace,
            name = request.name,
            resource = %request.resource,
            user = request.user.username,
            requestID = request.uid,
        );
        let ctx = AdmissionContext::with_deadline(request, deadline);
        async {
            let mut response = self.handled(&ctx).await;
            let mut warnings = ctx.take_warnings();
            warnings.append(&mut response.warnings);
            response.warnings = warnings;
            // The log field is not named `message`, because that would replace the text of the log line.
            let reason = response
                .status
                .as_ref()
                .and_then(|status| status.message.as_deref());
            match response.code() {
                code @ 500.. => error!(code, reason, "the webhook could not decide a request"),
                code => debug!(
                    code,
                    allowed = response.allowed,
                    reason,
                    "a request is decided"
                ),
            }
            response
        }
        .instrument(span)
        .await
    }

    async fn handled(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        let over = at(ctx.deadline().map(Instant::into_std));
        // The call of the handler and its future can both panic, so both are inside `catch_unwind`.
        let handled = AssertUnwindSafe(async { self.handler.handle(ctx).await }).catch_unwind();
        tokio::select! {
            biased;
            handled = handled => handled.unwrap_or_else(|payload| self.panicked(panic_text(&*payload))),
            () = over => AdmissionResponse::errored(
                504,
                format_args!("the webhook {} did not decide in the time that the request gave", self.path),
            ),
        }
    }

    /// ADMIT-4: makes the response to the request in which the handler panicked.
    fn panicked(&self, panic: &str) -> AdmissionResponse {
        self.metrics.panicked();
        let text = format_args!("the webhook {} panicked: {panic}", self.path);
        AdmissionResponse::errored(500, text)
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}
