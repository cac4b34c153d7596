//! Driver: damages a response body on its way as a fault demands: small pieces, delays, or an early end.

use bytes::{Buf, Bytes};
use futures::stream;
use http_body_util::BodyExt as _;
use tokio::time::sleep;

use crate::faults::Chop;
use crate::http::responses::body::{BodyError, ResponseBody};

struct FaultyBody {
    body: ResponseBody,
    /// Data received from the body and not sent yet.
    rest: Bytes,
    sent: u64,
    chop: Chop,
}

pub(crate) fn chop(body: ResponseBody, chop: Chop) -> ResponseBody {
    if chop == Chop::default() {
        return body;
    }
    let faulty = FaultyBody {
        body,
        rest: Bytes::new(),
        sent: 0,
        chop,
    };
    let pieces = stream::unfold(Some(faulty), |state| async move {
        let mut state = state?;
        match state.next().await? {
            Ok(piece) => Some((Ok(piece), Some(state))),
            Err(error) => Some((Err(error), None)),
        }
    });
    ResponseBody::stream(Box::pin(pieces))
}

impl FaultyBody {
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        let Chop { pieces, cut_after } = self.chop;
        let left = cut_after.map(|most| most.saturating_sub(self.sent));
        if left == Some(0) {
            return Some(Err(BodyError));
        }
        while !self.rest.has_remaining() {
            match self.body.frame().await? {
                Ok(frame) => self.rest = frame.into_data().unwrap_or_default(),
                Err(error) => return Some(Err(error)),
            }
        }
        let left = left.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let most = pieces.map_or(usize::MAX, |(bytes, _)| bytes);
        let piece = self.rest.split_to(self.rest.len().min(most).min(left));
        if let Some((_, time)) = pieces {
            sleep(time).await;
        }
        self.sent += piece.len() as u64;
        Some(Ok(piece))
    }
}
