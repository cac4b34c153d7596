//! Machine: the texts of times, sizes and addresses.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Returns the address of the page of an object, relative to `/debug/`.
pub(super) fn link(controller: &str, key: &str) -> String {
    format!(
        "object?controller={}&key={}",
        encoded(controller),
        encoded(key)
    )
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Returns a number of seconds in the unit that a person would choose.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.000_95 => format!("{:.0} µs", s * 1e6),
        s if s < 0.095 => format!("{:.1} ms", s * 1e3),
        s if s < 0.95 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// Returns how long ago something happened; a dash if it never did.
pub(super) fn ago(time: Option<f64>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{} ago", seconds(time)))
}

pub(super) fn bytes(bytes: usize) -> String {
    // Sizes are far below 2^53.
    match bytes as f64 {
        b if b < 1e3 => format!("{bytes} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_the_unit_that_a_person_would_choose() {
        let times = [0.000_01, 0.012, 0.5, 3.0, 59.0, 600.0, 10_000.0, 1e6].map(seconds);
        assert_eq!(
            times,
            [
                "10 µs", "12.0 ms", "500 ms", "3.0 s", "59 s", "10 min", "3 h", "12 d"
            ]
        );
        assert_eq!(
            [7, 1_500, 2_000_000].map(bytes),
            ["7 B", "1.5 kB", "2.0 MB"]
        );
    }
}
