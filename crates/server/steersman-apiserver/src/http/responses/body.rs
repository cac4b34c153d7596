//! Driver: response bodies, sent whole, in pieces or as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};

use crate::http::responses::gzip::{self, Gzip};
use crate::http::responses::list::ListBody;

/// The body of an answer. Lists and watches are serialised while they are sent, so they need no second copy in memory.
pub struct ResponseBody {
    content: BodyContent,
    packing: Packing,
}

enum Packing {
    Plain,
    /// The whole body is one gzip member; `None` once the member is finished.
    Whole(Option<Box<Gzip>>),
    /// Each piece is a gzip member of its own, which the client can decompress at once.
    Pieces,
}

enum BodyContent {
    Whole(Option<Bytes>),
    List { list: Box<ListBody>, left: u64 },
    Stream(BoxStream<'static, Result<Bytes, BodyError>>),
}

/// The error that ends a body early: a fault that a test injected, or a simulated restart, cut the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fault that was asked for cut the connection off")]
#[non_exhaustive]
pub struct BodyError;

impl ResponseBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self::plain(BodyContent::Whole(bytes))
    }

    pub(crate) fn list(list: ListBody) -> Self {
        let left = list.length();
        let list = Box::new(list);
        Self::plain(BodyContent::List { list, left })
    }

    pub(crate) fn stream(stream: BoxStream<'static, Result<Bytes, BodyError>>) -> Self {
        Self::plain(BodyContent::Stream(stream))
    }

    fn plain(content: BodyContent) -> Self {
        let packing = Packing::Plain;
        Self { content, packing }
    }

    /// Returns the body compressed with gzip, as one gzip member, or for a stream as one member per piece.
    pub(crate) fn compressed(mut self) -> Self {
        self.packing = match self.content {
            BodyContent::Whole(_) | BodyContent::List { .. } => {
                Packing::Whole(Some(Box::new(Gzip::new())))
            }
            BodyContent::Stream(_) => Packing::Pieces,
        };
        self
    }

    /// Polls for the next uncompressed piece; `None` at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match &mut self.content {
            BodyContent::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            BodyContent::List { list, left } => {
                let piece = list.next_piece();
                *left = left.saturating_sub(piece.len() as u64);
                Poll::Ready(Some(piece).filter(|piece| !piece.is_empty()).map(Ok))
            }
            BodyContent::Stream(stream) => Pin::new(stream).poll_next(context),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.content {
            BodyContent::Whole(_) => "whole",
            BodyContent::List { .. } => "list",
            BodyContent::Stream(_) => "stream",
        };
        f.debug_struct("ResponseBody")
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let piece = ready!(self.poll_piece(context)).transpose()?;
            let data = match (&mut self.packing, piece) {
                (Packing::Plain, piece) => piece,
                (Packing::Pieces, piece) => piece.map(|piece| gzip::member(&piece)),
                (Packing::Whole(Some(gzip)), Some(piece)) => Some(gzip.push(&piece)),
                (Packing::Whole(gzip), _) => gzip.take().map(|gzip| gzip.finish()),
            };
            // The compressor buffers small pieces and returns no bytes for them; then the next piece is polled.
            if data.as_ref().is_none_or(|data| !data.is_empty()) {
                return Poll::Ready(data.map(|data| Ok(Frame::data(data))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        if let Packing::Whole(Some(_)) = self.packing {
            return false;
        }
        match &self.content {
            BodyContent::Whole(bytes) => bytes.is_none(),
            BodyContent::List { left, .. } => *left == 0,
            BodyContent::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        if !matches!(self.packing, Packing::Plain) {
            return SizeHint::default();
        }
        match &self.content {
            BodyContent::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyContent::List { left, .. } => SizeHint::with_exact(*left),
            BodyContent::Stream(_) => SizeHint::default(),
        }
    }
}
