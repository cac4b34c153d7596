//! Machine: the failures with which perturbations answer requests.

use steersman_apimachinery::status::Status;
use steersman_explore::{OperatorRequest, RequestVerb};

/// Returns the failure of a perturbation, as a kube-apiserver words it.
pub(super) fn refusal(code: u16, request: &OperatorRequest) -> Status {
    let (reason, message) = match code {
        409 => (
            "Conflict",
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        422 if request.is_streaming_list => (
            "Invalid",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ),
        422 => ("Invalid", "the object is invalid"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        _ => (
            "InternalError",
            "an error on the server has prevented the request from succeeding",
        ),
    };
    let name = request.name.as_deref().unwrap_or_default();
    let status = Status::failure(
        code,
        reason,
        format!("{} {name:?}: {message}", request.resource),
    );
    if matches!(code, 429 | 503) && !matches!(request.verb, RequestVerb::Watch) {
        status.with_retry_after(1)
    } else {
        status
    }
}
