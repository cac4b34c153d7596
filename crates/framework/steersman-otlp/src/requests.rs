//! Driver: a tower layer that adds a span and the trace's headers to requests to the API server.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span};

use crate::path::describe;
use crate::trace_context::inject;

/// A tower layer that traces requests to one API server.
#[derive(Clone, Debug)]
pub(crate) struct RequestTracing {
    server: Arc<TracedServer>,
}

#[derive(Debug)]
struct TracedServer {
    /// The address without the path and a slash at its end; empty for a server in this process.
    base: String,
    host: String,
    port: Option<u16>,
}

/// The service of [`RequestTracing`].
#[derive(Clone, Debug)]
pub(crate) struct TracedRequests<S> {
    inner: S,
    server: Arc<TracedServer>,
}

impl RequestTracing {
    /// Makes the layer for a server with this address, such as `https://10.0.0.1:6443`. A text that is no address is
    /// the name of a server in this process.
    pub(crate) fn new(endpoint: &str) -> Self {
        let uri: Option<http::Uri> = endpoint.parse().ok();
        let uri = uri.filter(|uri| uri.scheme().is_some() && uri.host().is_some());
        let server = match uri {
            Some(uri) => {
                let default = if uri.scheme_str() == Some("http") {
                    80
                } else {
                    443
                };
                TracedServer {
                    base: endpoint.trim_end_matches('/').to_owned(),
                    host: uri.host().unwrap_or_default().to_owned(),
                    port: Some(uri.port_u16().unwrap_or(default)),
                }
            }
            None => TracedServer {
                base: String::new(),
                host: "in-process".to_owned(),
                port: None,
            },
        };
        Self {
            server: Arc::new(server),
        }
    }
}

impl<S> Layer<S> for RequestTracing {
    type Service = TracedRequests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TracedRequests {
            inner,
            server: Arc::clone(&self.server),
        }
    }
}

impl<S, B, A> Service<Request<B>> for TracedRequests<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    A: 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<A>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let span = self.server.span(&request);
        if span.is_disabled() {
            inject(&Span::current(), request.headers_mut());
            return self.inner.call(request).boxed();
        }
        inject(&span, request.headers_mut());
        let answer = span.in_scope(|| self.inner.call(request));
        let recorded = span.clone();
        let traced = async move {
            let answer = answer.await;
            record(&recorded, answer.as_ref().ok());
            answer
        };
        traced.instrument(span).boxed()
    }
}

impl TracedServer {
    fn span<B>(&self, request: &Request<B>) -> Span {
        // The path is described only if the span is enabled: its description needs memory.
        if !tracing::span_enabled!(tracing::Level::TRACE) {
            return Span::none();
        }
        let method = request.method().as_str();
        let uri = request.uri();
        let path = describe(uri.path());
        let whole = uri.path_and_query().map_or("/", |whole| whole.as_str());
        tracing::trace_span!(
            "request",
            otel.kind = "client",
            otel.name = format!("{method} {}", path.template),
            otel.status_code = tracing::field::Empty,
            "http.request.method" = method,
            "url.full" = format!("{}{whole}", self.base),
            "url.template" = path.template,
            "server.address" = self.host,
            "server.port" = self.port,
            "k8s.namespace.name" = path.namespace,
            "steersman.object.name" = path.name,
            "http.response.status_code" = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
        )
    }
}

/// Records the end of a request; `None` stands for a request without an answer.
fn record<A>(span: &Span, answer: Option<&Response<A>>) {
    let code = answer.map(|answer| answer.status().as_u16());
    if let Some(code) = code {
        span.record("http.response.status_code", code);
        if code < 400 {
            return;
        }
    }
    // As OpenTelemetry asks of clients, every answer from 400 on is an error, also one that the caller expects.
    span.record("otel.status_code", "error");
    match code {
        Some(code) => span.record("error.type", code.to_string()),
        None => span.record("error.type", "transport"),
    };
}
