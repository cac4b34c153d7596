//! Machine: the `timeout` of a query, which is read and refused as kube-apiserver does it.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/filters/request_deadline.go`. A verb waits for
//! nothing here, so that no deadline is ever missed.

use crate::http::query::Query;
use crate::status::Status;

/// Nanoseconds of the units that Go knows.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Refuses a `timeout` that is no duration. Requests that run long have none.
///
/// # Errors
/// 400 with Go's words.
pub(crate) fn check(query: &Query) -> Result<(), Status> {
    let Some(text) = query.get("timeout").filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    refusal(text).map_or(Ok(()), |why| {
        Err(Status::bad_request(format!(
            "invalid timeout specified in the request URL - time: {why}"
        )))
    })
}

/// Why `time.ParseDuration` refuses a text.
fn refusal(text: &str) -> Option<String> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let invalid = || Some(format!("invalid duration {}", quoted(text)));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (whole, after) = rest.split_at(digits(rest));
        let fraction = after.strip_prefix('.').map(digits);
        rest = match fraction {
            Some(count) => &after[1 + count..],
            None => after,
        };
        if whole.is_empty() && fraction.is_none_or(|count| count == 0) {
            return invalid();
        }
        let end = rest.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        if unit.is_empty() {
            return Some(format!("missing unit in duration {}", quoted(text)));
        }
        let Some((_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let unit = quoted(unit);
            return Some(format!("unknown unit {unit} in duration {}", quoted(text)));
        };
        let number = if whole.is_empty() { "0" } else { whole };
        let part = number.parse::<u64>().ok();
        let part = part.and_then(|number| number.checked_mul(*length));
        match part.and_then(|part| total.checked_add(part)) {
            Some(sum) if i64::try_from(sum).is_ok() => total = sum,
            _ => return invalid(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_refused_as_go_refuses_them() {
        for fine in ["1s", "-1.5h", "+0", "0", "1h2m3.5s", ".5s", "3µs", "1.s"] {
            assert_eq!(refusal(fine), None, "{fine}");
        }
        for (text, why) in [
            ("abc", "invalid duration \"abc\""),
            ("-", "invalid duration \"-\""),
            (".s", "invalid duration \".s\""),
            ("10", "missing unit in duration \"10\""),
            ("5d", "unknown unit \"d\" in duration \"5d\""),
            ("9999999999h", "invalid duration \"9999999999h\""),
        ] {
            assert_eq!(refusal(text).as_deref(), Some(why));
        }
        let query = Query::parse(Some("timeout=x"));
        let refused = check(&query).unwrap_err();
        assert_eq!(
            refused.message,
            "invalid timeout specified in the request URL - time: invalid duration \"x\""
        );
        assert!(check(&Query::parse(Some("timeout="))).is_ok());
    }
}
