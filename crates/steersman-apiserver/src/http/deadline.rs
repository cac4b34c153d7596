//! Machine: the `timeout` of a query, which is read and refused as kube-apiserver does it.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/filters/request_deadline.go`. A verb waits for
//! nothing here, so that no deadline is ever missed.

use crate::go_duration;
use crate::http::query::Query;
use crate::status::Status;

/// Refuses a `timeout` that is no duration. Requests that run long have none.
///
/// # Errors
/// 400 with Go's words.
pub(crate) fn check(query: &Query) -> Result<(), Status> {
    let Some(text) = query.get("timeout").filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    go_duration::parse(text).map(drop).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_duration_or_refused() {
        let query = Query::parse(Some("timeout=x"));
        let refused = check(&query).unwrap_err();
        assert_eq!(
            refused.message,
            "invalid timeout specified in the request URL - time: invalid duration \"x\""
        );
        for fine in ["timeout=", "timeout=-1.5h", ""] {
            assert!(check(&Query::parse(Some(fine))).is_ok(), "{fine}");
        }
    }
}
