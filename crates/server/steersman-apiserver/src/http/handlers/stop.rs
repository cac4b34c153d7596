//! Driver: ends requests that wait for webhooks or revisions when their HTTPS listener stops.

use std::time::Duration;

use steersman_apimachinery::status::Status;
use tokio_util::sync::CancellationToken;

/// Time for a request in flight to finish after its listener stops. Most calls of webhooks take less.
const LAST_WORK: Duration = Duration::from_millis(500);

/// Awaits `work`, which may be dropped unfinished. Drops it and returns a refusal if it still waits half a second after
/// the listener stopped (SRV-STOP-2).
pub(crate) async fn before_end<T>(
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Status> {
    let ended = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_WORK).await;
    };
    // `biased` polls the work first: work that completes at once never touches the token, which all requests share.
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = ended => Err(refusal()),
    }
}

/// Returns the 503 for a request to a listener that stops. Its `Retry-After` lets the client repeat the request.
pub(crate) fn refusal() -> Status {
    let why = "the server is shutting down";
    Status::failure(503, "ServiceUnavailable", why).with_retry_after(1)
}
