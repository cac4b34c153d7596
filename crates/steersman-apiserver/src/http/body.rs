//! Driver: response bodies, sent whole, in pieces or as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};

use crate::http::reply::ListBody;

/// The body of an answer. Lists and watches are written while they are read, so that neither is
/// held in memory a second time.
pub struct ResponseBody {
    content: Content,
}

enum Content {
    Whole(Option<Bytes>),
    List { list: Box<ListBody>, left: u64 },
    Stream(BoxStream<'static, Result<Bytes, BodyError>>),
}

/// Why a body ended before its time: a fault broke the watch off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BodyError;

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the watch was broken off by a fault that was asked for")
    }
}

impl std::error::Error for BodyError {}

impl ResponseBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self {
            content: Content::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
        }
    }

    pub(crate) fn list(list: ListBody) -> Self {
        let left = list.length();
        Self {
            content: Content::List {
                list: Box::new(list),
                left,
            },
        }
    }

    pub(crate) fn stream(stream: BoxStream<'static, Result<Bytes, BodyError>>) -> Self {
        Self {
            content: Content::Stream(stream),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.content {
            Content::Whole(_) => "whole",
            Content::List { .. } => "list",
            Content::Stream(_) => "stream",
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
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::List { list, left } => {
                let piece = list.next_piece();
                *left = left.saturating_sub(piece.len() as u64);
                let frame = if piece.is_empty() {
                    None
                } else {
                    Some(Ok(Frame::data(piece)))
                };
                Poll::Ready(frame)
            }
            Content::Stream(stream) => {
                let next = Pin::new(stream).poll_next(context);
                next.map(|item| item.map(|item| item.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::List { left, .. } => *left == 0,
            Content::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::List { left, .. } => SizeHint::with_exact(*left),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
