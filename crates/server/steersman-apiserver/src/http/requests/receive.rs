//! Driver: reads request bodies up to the size limit.

use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use steersman_apimachinery::status::Status;

use crate::http::requests::decode::LIMIT;

/// Maximum number of bytes of a refused body that are read and dropped, so that the client reads the refusal.
const DRAINED: usize = 64 * 1024 * 1024;
const DRAIN_FOR: Duration = Duration::from_secs(5);

pub(crate) async fn read<B: Body>(headers: &HeaderMap, body: B) -> Result<Bytes, Status> {
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut pieces = pin!(body.map_err(|_| ()).into_data_stream());
    if announced.is_some_and(|length: u64| length > LIMIT as u64) {
        // A client that sent `Expect: 100-continue` has not sent the body, so there is nothing to drop.
        if !headers.contains_key(header::EXPECT) {
            drain(pieces).await;
        }
        return Err(Status::too_large(LIMIT));
    }
    let mut all = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let data = piece.map_err(|()| Status::bad_request("the request body ended too early"))?;
        if all.len() + data.remaining() > LIMIT {
            drop((all, data));
            drain(pieces).await;
            return Err(Status::too_large(LIMIT));
        }
        all.put(data);
    }
    Ok(all.freeze())
}

/// Reads and drops the rest of a refused body, within bounds. If the connection were closed while the client still
/// sends, the client would get a connection reset instead of the answer.
async fn drain<D: Buf>(mut pieces: impl Stream<Item = Result<D, ()>> + Unpin) {
    let rest = async {
        let mut dropped = 0;
        while dropped < DRAINED
            && let Some(Ok(data)) = pieces.next().await
        {
            dropped += data.remaining();
        }
    };
    // The refusal is sent after `DRAIN_FOR` even if the client has stalled.
    let _ = tokio::time::timeout(DRAIN_FOR, rest).await;
}
