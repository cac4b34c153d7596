//! Machine: the time that an api-server gives a webhook, from the query of its URL.

use std::time::Duration;

/// Returns the value of `timeout` in a query, a duration as Go writes it, such as `10s` or `1m30s`; `None` if there is
/// none or if it cannot be read.
pub(crate) fn timeout_of(query: &str) -> Option<Duration> {
    let value = query
        .split('&')
        .find_map(|member| member.strip_prefix("timeout="))?;
    let mut rest = value;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|at: char| !at.is_ascii_digit() && at != '.')?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let unit = after
            .find(|at: char| at.is_ascii_digit() || at == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        seconds += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                _ => return None,
            };
        rest = after;
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
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
