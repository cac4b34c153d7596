//! Driver: measures the requests of a client configuration, from the call of the client to the end of the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::{AnswerBody, AnswerFuture, Wire};
use crate::metrics::HostMetrics;

/// A sent request, which is measured once: when it ends or is dropped (CONN-6).
struct Measurement {
    metrics: Arc<HostMetrics>,
    method: Method,
    start: Instant,
    is_endless: bool,
    /// The number of bytes of the answer's body that were read; `None` before the answer.
    read: Option<u64>,
}

/// The body of an answer. Its end is the end of the request's measurement.
struct MeasuredBody {
    inner: AnswerBody,
    /// The running measurement; `None` after the end of the body.
    measurement: Option<Measurement>,
}

pub(super) fn measure(
    metrics: &Arc<HostMetrics>,
    wire: &mut Wire,
    request: Request<Body>,
) -> AnswerFuture {
    let measurement = Measurement::start(metrics, &request);
    let answer = wire.call(request);
    async move {
        // If the answer fails or this future is dropped, the measurement ends without an answer.
        let response = answer.await?;
        Ok(measurement.answered(response))
    }
    .boxed()
}

impl Measurement {
    fn start(metrics: &Arc<HostMetrics>, request: &Request<Body>) -> Self {
        let method = request.method().clone();
        let is_endless = is_endless(request.uri().query().unwrap_or_default());
        if let (false, Some(bytes)) = (is_endless, request.body().size_hint().exact()) {
            metrics.observe(|all| &all.request_sizes, &method, bytes as f64);
        }
        Self {
            metrics: Arc::clone(metrics),
            method,
            start: Instant::now(),
            is_endless,
            read: None,
        }
    }

    fn answered(mut self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        self.metrics.count(Some(response.status()), &self.method);
        self.read = Some(0);
        if self.is_endless {
            return response;
        }
        response.map(|inner| {
            let measurement = Some(self);
            UnsyncBoxBody::new(MeasuredBody { inner, measurement })
        })
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        if self.read.is_none() {
            self.metrics.count(None, &self.method);
        }
        if self.is_endless {
            return;
        }
        let seconds = self.start.elapsed().as_secs_f64();
        self.metrics
            .observe(|all| &all.durations, &self.method, seconds);
        if let Some(bytes) = self.read {
            self.metrics
                .observe(|all| &all.response_sizes, &self.method, bytes as f64);
        }
    }
}

impl http_body::Body for MeasuredBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match (&frame, &mut self.measurement) {
            (Some(Ok(frame)), Some(measurement)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                measurement.read = measurement.read.map(|read| read.saturating_add(bytes));
            }
            _ => drop(self.measurement.take()),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns whether a query requests an answer that ends only when the server or the client closes it: a watch, or a log
/// that is followed.
fn is_endless(query: &str) -> bool {
    let endless = ["watch=true", "watch=1", "follow=true", "follow=1"];
    query
        .split('&')
        .any(|parameter| endless.contains(&parameter))
}
