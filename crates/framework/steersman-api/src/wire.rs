//! Driver: the middleware of a client configuration: the encoding, metrics, layers, the `User-Agent`, and warnings.

mod measure;
mod negotiate;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube_client::client::Body;
use parking_lot::Mutex;
use steersman_object::panic_text;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceExt as _};
use tracing::{error, warn};

use crate::encoding::{Encoding, SharedEncoding};
use crate::metrics::HostMetrics;
use crate::warning::{SeenWarnings, Warning, texts};
use measure::measure;
use negotiate::negotiate;

/// The service that sends requests to a server, as a layer of a client configuration sees it.
pub type Wire = BoxService<Request<Body>, Response<AnswerBody>, BoxError>;

/// The body of an answer, as a layer of a client configuration sees it.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The middleware of a client configuration. Cheap to clone; clones share the record of logged warnings.
#[derive(Clone)]
pub(crate) struct Middleware {
    pub(crate) agent: HeaderValue,
    said: Arc<Mutex<SeenWarnings>>,
    pub(crate) hooks: Vec<Arc<WarningHook>>,
    pub(crate) layers: Vec<Arc<Wrap>>,
    pub(crate) metrics: Option<Arc<HostMetrics>>,
    pub(crate) encoding: Arc<SharedEncoding>,
}

type WarningHook = dyn Fn(&Warning) + Send + Sync;
type Wrap = dyn Fn(Wire) -> Wire + Send + Sync;

impl Middleware {
    pub(crate) fn new(agent: HeaderValue) -> Self {
        Self {
            agent,
            said: Arc::default(),
            hooks: Vec::new(),
            layers: Vec::new(),
            metrics: None,
            encoding: SharedEncoding::new(Encoding::of_environment()),
        }
    }

    /// Wraps a service in the middleware. The layer that was added last is the outermost layer; metrics are outside of
    /// all layers, and the choice of the encoding is outside of the metrics.
    pub(crate) fn wrap<S, B>(&self, service: S) -> Wire
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let marks = self.clone();
        let mut wire = around(erase(service), move |wire, request| {
            marks.mark(wire, request)
        });
        for layer in &self.layers {
            wire = around(layer(wire), catch_panic);
        }
        if let Some(metrics) = self.metrics.clone() {
            wire = around(wire, move |wire, request| measure(&metrics, wire, request));
        }
        let (encoding, metrics) = (Arc::clone(&self.encoding), self.metrics.clone());
        around(wire, move |wire, request| {
            negotiate(&encoding, metrics.clone(), wire, request)
        })
    }

    /// Sets the `User-Agent`, and logs the warnings of the server.
    fn mark(&self, wire: &mut Wire, mut request: Request<Body>) -> AnswerFuture {
        let agent = || self.agent.clone();
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert_with(agent);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (said, hooks) = (Arc::clone(&self.said), self.hooks.clone());
        let answer = wire.call(request);
        async move {
            let response = answer.await?;
            for text in texts(response.headers()) {
                let request = format!("{method} {path}");
                if said.lock().note(&text) {
                    warn!(request, "the api-server warns: {text}");
                }
                let warning = Warning { request, text };
                for hook in &hooks {
                    // MGR-7: a panic of a hook ends neither the request nor its task.
                    let result = catch_unwind(AssertUnwindSafe(|| hook(&warning)));
                    if let Err(payload) = result {
                        let (request, panic) = (&warning.request, panic_text(&*payload));
                        error!(request, panic, "the hook `on_warning` panicked: correct it");
                    }
                }
            }
            Ok(response)
        }
        .boxed()
    }
}

/// The answer to one request, as a layer of a client configuration sees it.
type AnswerFuture = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

/// A service that changes the requests to its inner service, and the answers.
struct Around<F> {
    inner: Wire,
    call: F,
}

impl<F: FnMut(&mut Wire, Request<Body>) -> AnswerFuture> Service<Request<Body>> for Around<F> {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> AnswerFuture {
        (self.call)(&mut self.inner, request)
    }
}

fn around(
    inner: Wire,
    call: impl FnMut(&mut Wire, Request<Body>) -> AnswerFuture + Send + 'static,
) -> Wire {
    BoxService::new(Around { inner, call })
}

pub(crate) fn erase<S, B>(service: S) -> Wire
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    service
        .map_response(|response: Response<B>| {
            response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into)))
        })
        .map_err(Into::into)
        .boxed()
}

/// Turns a panic of a layer into an error of one request, so that the client stays usable.
fn catch_panic(wire: &mut Wire, request: Request<Body>) -> AnswerFuture {
    // The author of a layer is responsible for its state after a panic.
    let answer = match catch_unwind(AssertUnwindSafe(|| wire.call(request))) {
        Ok(answer) => answer,
        Err(payload) => return std::future::ready(Err(panicked(&*payload))).boxed(),
    };
    AssertUnwindSafe(answer)
        .catch_unwind()
        .map(|answer| answer.unwrap_or_else(|payload| Err(panicked(&*payload))))
        .boxed()
}

fn panicked(payload: &(dyn Any + Send)) -> BoxError {
    let text = panic_text(payload);
    format!("a layer on the connection panicked: {text}").into()
}
