//! Machine: formats durations as kubectl prints ages.

use jiff::Timestamp;
use serde_json::Value;

/// Returns the time since an RFC 3339 timestamp, or `<unknown>` for a missing or invalid one.
pub(crate) fn since(value: Option<&Value>, now: Timestamp) -> String {
    match value {
        None | Some(Value::Null) => "<unknown>".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "<unknown>".to_owned(),
        Some(Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => human(now.as_second().saturating_sub(then.as_second())),
            Err(_) => "<invalid>".to_owned(),
        },
        Some(_) => "<invalid>".to_owned(),
    }
}

/// Formats seconds in at most two units, coarser for longer times: `45s`, `3m20s`, `7h`, `5d4h`, `2y30d`.
pub(crate) fn human(seconds: i64) -> String {
    const DAYS_PER_YEAR: i64 = 365;
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if days < 2 * DAYS_PER_YEAR {
        format!("{days}d")
    } else if days < 8 * DAYS_PER_YEAR {
        two(days / DAYS_PER_YEAR, 'y', days % DAYS_PER_YEAR, 'd')
    } else {
        format!("{}y", days / DAYS_PER_YEAR)
    }
}

fn two(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn units_grow_with_the_age() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (5 * 86_400 + 4 * 3600, "5d4h"),
            (400 * 86_400, "400d"),
            (760 * 86_400, "2y30d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, text) in table {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_missing_time_is_unknown() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(since(None, now), "<unknown>");
        assert_eq!(since(Some(&json!("2026-01-01T00:00:00Z")), now), "60s");
        assert_eq!(since(Some(&json!("yesterday")), now), "<invalid>");
        assert_eq!(since(Some(&json!(5)), now), "<invalid>");
    }
}
