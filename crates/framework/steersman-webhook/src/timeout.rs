//! Machine: reads the timeout of a webhook call from the query of its URL.

use std::time::Duration;

use steersman_object::parse_duration;

/// Returns the parameter `timeout` of a query, a Go duration such as `10s` or `1m30s`; `None` if it is missing or
/// invalid.
pub(crate) fn timeout_of(query: &str) -> Option<Duration> {
    let value = query
        .split('&')
        .find_map(|member| member.strip_prefix("timeout="))?;
    let timeout = parse_duration(value).ok()?;
    (!timeout.is_zero()).then_some(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_read_as_go_writes_it() {
        for (query, expected) in [
            ("timeout=10s", Some(10_000)),
            ("a=b&timeout=1m30s", Some(90_000)),
            ("timeout=500ms", Some(500)),
            ("timeout=1.5s&b", Some(1500)),
            ("timeout=1h0m0s", Some(3_600_000)),
            ("timeout=", None),
            ("timeout=10", None),
            ("timeout=s", None),
            ("timeout=1.1.1s", None),
            ("timeout=1y", None),
            ("timeout=0s", None),
            ("timeout=99999999999999999999h", None),
            ("", None),
        ] {
            let found = timeout_of(query).map(|timeout| timeout.as_millis());
            assert_eq!(found, expected, "{query}");
        }
    }
}
