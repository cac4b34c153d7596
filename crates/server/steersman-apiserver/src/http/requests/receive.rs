//! Driver: reads request bodies up to the size limit.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use steersman_apimachinery::status::Status;

use crate::http::requests::decode::LIMIT;

/// Maximum number of bytes of an oversized body that are read and dropped, and the time allowed for
/// that.
const DRAINED: usize = 64 * 1024 * 1024;
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// Reads a body up to the limit.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Status>
where
    B: Body,
{
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut body = pin!(body);
    if announced.is_some_and(|length: u64| length > LIMIT as u64) {
        // A client that waits for `100 Continue` sends nothing of the body.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(Status::too_large(LIMIT));
    }
    let mut all = BytesMut::new();
    while let Some(piece) = next_piece(body.as_mut()).await {
        let data = piece.map_err(|()| Status::bad_request("the request body ended too early"))?;
        if all.len() + data.remaining() > LIMIT {
            drop((all, data));
            drain(body).await;
            return Err(Status::too_large(LIMIT));
        }
        all.put(data);
    }
    Ok(all.freeze())
}

/// Reads the next data of a body; an error if the body breaks off.
async fn next_piece<B: Body>(mut body: Pin<&mut B>) -> Option<Result<B::Data, ()>> {
    loop {
        let frame = poll_fn(|context| {
            let frame = body.as_mut().poll_frame(context);
            frame.map(|frame| frame.map(|frame| frame.map_err(|_| ())))
        });
        match frame.await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(()) => return Some(Err(())),
        }
    }
}

/// Reads and drops the rest of a refused body, within bounds. A client that still sends when the
/// connection is closed would lose the answer to the connection reset.
async fn drain<B: Body>(mut body: Pin<&mut B>) {
    let rest = async {
        let mut dropped = 0;
        while dropped < DRAINED
            && let Some(Ok(data)) = next_piece(body.as_mut()).await
        {
            dropped += data.remaining();
        }
    };
    // A client that stalls gets its answer after this time.
    let _ = tokio::time::timeout(DRAIN_FOR, rest).await;
}
