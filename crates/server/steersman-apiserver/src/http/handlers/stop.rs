//! Driver: ends requests that wait for webhooks or revisions when their HTTPS listener stops.

use std::time::Duration;

use steersman_apimachinery::status::Status;
use tokio_util::sync::CancellationToken;

/// Time for a request in flight to finish after its listener stops. Most calls of webhooks take less.
const LAST_WORK: Duration = Duration::from_millis(500);

/// Carries out work that can be dropped unfinished, and drops it soon after the listener stops (SRV-STOP-2).
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

/// Returns the refusal of a request to a stopping listener, which the client may repeat.
pub(crate) fn refusal() -> Status {
    let why = "the server is shutting down";
    Status::failure(503, "ServiceUnavailable", why).with_retry_after(1)
}
