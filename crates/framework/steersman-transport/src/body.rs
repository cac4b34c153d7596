//! Driver: the body of a response, which keeps its stream or connection until it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tower::BoxError;

pub(crate) type Answered = Result<Response<PooledBody>, BoxError>;

/// The body of an answer.
#[derive(derive_more::Debug)]
#[debug("PooledBody {{ .. }}")]
pub struct PooledBody {
    inner: Incoming,
    /// The lease of the stream or connection. Dropping the lease returns it to the pool.
    lease: Option<Box<dyn Send>>,
}

impl PooledBody {
    pub(crate) fn new(inner: Incoming, lease: impl Send + 'static) -> Self {
        let lease = (!inner.is_end_stream()).then(|| Box::new(lease) as Box<dyn Send>);
        Self { inner, lease }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) || self.inner.is_end_stream() {
            self.lease = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
