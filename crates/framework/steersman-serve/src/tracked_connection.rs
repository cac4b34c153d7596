//! Driver: tracks the phase of one connection, through a stream that reports its reads and writes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep_until;
use tokio_util::io::{InspectReader, InspectWriter};
use tokio_util::sync::CancellationToken;

use crate::connection_phase::ConnectionPhase;
use crate::streamed::{BodyStream, StreamedBody};

pub(crate) struct TrackedConnection {
    phase: Mutex<ConnectionPhase>,
    /// Cancelled when the connection has to make room for another connection, or when the server ends.
    pub(crate) close: CancellationToken,
}

pub(crate) struct RequestInProgress {
    connection: Arc<TrackedConnection>,
    /// Whether the response is a stream.
    is_streamed: bool,
}

/// The body of a response. The request counts as in progress until its response body is dropped.
pub(crate) struct ResponseBody {
    body: BodyParts,
    _request: RequestInProgress,
}

enum BodyParts {
    Whole(Full<Bytes>),
    Streamed(BodyStream),
}

impl TrackedConnection {
    pub(crate) fn new(phase: ConnectionPhase) -> Self {
        Self {
            phase: Mutex::new(phase),
            close: CancellationToken::new(),
        }
    }

    pub(crate) fn on(&self, change: impl FnOnce(&mut ConnectionPhase, Instant)) {
        change(
            &mut self.phase.lock(),
            tokio::time::Instant::now().into_std(),
        );
    }

    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.phase.lock().waiting_since()
    }

    pub(crate) fn can_stop(&self) -> bool {
        self.phase.lock().can_stop()
    }

    pub(crate) fn done_since(&self) -> Option<Instant> {
        self.phase.lock().done_since()
    }

    /// Waits until the phase of the connection exceeds its time limit (SERVE-1).
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

    /// Wraps a stream so that it reports its reads and writes to this connection.
    pub(crate) fn track<S>(self: &Arc<Self>, stream: S) -> impl AsyncRead + AsyncWrite + use<S>
    where
        S: AsyncRead + AsyncWrite,
    {
        let (reader, writer) = (Arc::clone(self), Arc::clone(self));
        let stream = InspectReader::new(stream, move |bytes| {
            if !bytes.is_empty() {
                reader.on(ConnectionPhase::handle_read);
            }
        });
        InspectWriter::new(stream, move |_| writer.on(ConnectionPhase::handle_written))
    }

    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestInProgress {
        self.on(ConnectionPhase::handle_request);
        RequestInProgress {
            connection: Arc::clone(self),
            is_streamed: false,
        }
    }
}

impl RequestInProgress {
    fn stream(&mut self) {
        self.is_streamed = true;
        self.connection.on(|phase, _| phase.handle_stream());
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.connection.on(|phase, now| {
            if self.is_streamed {
                phase.handle_stream_end();
            }
            phase.handle_response(now);
        });
    }
}

impl ResponseBody {
    pub(crate) fn of(response: Response<Bytes>, mut request: RequestInProgress) -> Response<Self> {
        let streamed = response.extensions().get::<StreamedBody>();
        let streamed = streamed.and_then(StreamedBody::take);
        if streamed.is_some() {
            request.stream();
        }
        response.map(|body| Self {
            body: match streamed {
                Some(parts) => BodyParts::Streamed(parts),
                None => BodyParts::Whole(Full::new(body)),
            },
            _request: request,
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.body {
            BodyParts::Whole(body) => Pin::new(body).poll_frame(context),
            BodyParts::Streamed(parts) => {
                let part = parts.as_mut().poll_next(context);
                part.map(|part| part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            BodyParts::Whole(body) => body.is_end_stream(),
            BodyParts::Streamed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            BodyParts::Whole(body) => body.size_hint(),
            BodyParts::Streamed(_) => SizeHint::default(),
        }
    }
}
