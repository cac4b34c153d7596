//! Driver: the phase of one connection, and a stream that reports its bytes to it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::connection_phase::ConnectionPhase;

/// What the server knows about one of its connections.
pub(crate) struct TrackedConnection {
    phase: Mutex<ConnectionPhase>,
    /// Cancelled when the connection makes room for another one, or when the server ends.
    pub(crate) close: CancellationToken,
}

/// A stream that reports its bytes to its connection.
pub(crate) struct TrackedStream<S> {
    pub(crate) stream: S,
    pub(crate) connection: Arc<TrackedConnection>,
}

/// A request in progress, until it is dropped.
pub(crate) struct RequestInProgress {
    connection: Arc<TrackedConnection>,
}

/// The body of a response. Its request is in progress until the body is dropped.
pub(crate) struct ResponseBody {
    body: Full<Bytes>,
    _request: RequestInProgress,
}

impl TrackedConnection {
    pub(crate) fn new(phase: ConnectionPhase) -> Self {
        Self {
            phase: Mutex::new(phase),
            close: CancellationToken::new(),
        }
    }

    /// Changes the phase.
    pub(crate) fn on(&self, change: impl FnOnce(&mut ConnectionPhase, Instant)) {
        change(
            &mut self.phase.lock(),
            tokio::time::Instant::now().into_std(),
        );
    }

    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.phase.lock().waiting_since()
    }

    pub(crate) fn is_without_request(&self) -> bool {
        self.phase.lock().is_without_request()
    }

    /// Waits until the connection has been in one phase for too long (SERVE-1).
    pub(crate) async fn overdue(&self) {
        loop {
            let now = tokio::time::Instant::now().into_std();
            let next = self.phase.lock().next_check(now);
            if next <= now {
                return;
            }
            sleep_until(next.into()).await;
        }
    }

    /// Marks a request as in progress.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestInProgress {
        self.on(ConnectionPhase::handle_request);
        RequestInProgress {
            connection: Arc::clone(self),
        }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.connection.on(ConnectionPhase::handle_response);
    }
}

impl ResponseBody {
    pub(crate) fn new(body: Bytes, request: RequestInProgress) -> Self {
        Self {
            body: Full::new(body),
            _request: request,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.on(ConnectionPhase::handle_read);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> TrackedStream<S> {
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.connection.on(ConnectionPhase::handle_written);
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
