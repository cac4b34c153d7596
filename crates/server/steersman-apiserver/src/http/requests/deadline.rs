//! Machine: the `timeout` query parameter, parsed and refused as kube-apiserver does.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/filters/request_deadline.go` and `handlers/finisher/finisher.go`. A verb
//! waits only for webhooks and, if it reads, for a revision in the future. Only then can it exceed its deadline.

use std::time::Duration;

use steersman_apimachinery::go;
use steersman_apimachinery::status::{Details, Status};

use crate::http::requests::query::Query;

/// The default timeout of a request, which is also the maximum.
pub(crate) const MOST: Duration = Duration::from_secs(60);
const MISSED: &str =
    "request did not complete within requested timeout - context deadline exceeded";

/// Returns the 504 for a request that missed its deadline, and has changed nothing (SRV-1).
pub(crate) fn missed() -> Status {
    Status::failure(504, "Timeout", format!("Timeout: {MISSED}")).with_details(Details::default())
}

/// Returns the timeout of a request: the maximum if `timeout` is absent or not positive.
pub(crate) fn of(query: &Query) -> Result<Duration, Status> {
    let Some(text) = query.get("timeout").filter(|text| !text.is_empty()) else {
        return Ok(MOST);
    };
    let asked = go::parse_duration(text).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    let asked = u64::try_from(asked).map(Duration::from_nanos);
    let asked = asked.ok().filter(|asked| !asked.is_zero());
    Ok(asked.map_or(MOST, |asked| asked.min(MOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_a_request_is_a_minute_at_most() {
        for (query, seconds) in [
            ("timeout=1.5s", 1.5),
            ("timeout=2h", 60.0),
            ("timeout=0s", 60.0),
            ("timeout=-3s", 60.0),
            ("", 60.0),
        ] {
            let took = of(&Query::parse(Some(query))).unwrap();
            assert_eq!(took, Duration::from_secs_f64(seconds), "{query}");
        }
    }

    #[test]
    fn a_timeout_is_a_duration_or_refused() {
        let query = Query::parse(Some("timeout=x"));
        let refused = of(&query).unwrap_err();
        assert_eq!(
            refused.message,
            "invalid timeout specified in the request URL - time: invalid duration \"x\""
        );
        for fine in ["timeout=", "timeout=-1.5h", ""] {
            assert!(of(&Query::parse(Some(fine))).is_ok(), "{fine}");
        }
    }
}
