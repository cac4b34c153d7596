//! Words: texts of the types `Time` and `MicroTime`, and the messages of Go's parser for invalid ones.

/// The parts of a `MicroTime` that Go's messages name.
const PARTS: &[&str] = &[
    "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", ".000000",
];

/// Checks the text of a `Time`, which is in the form of RFC 3339.
///
/// # Errors
/// Fails with the message of Go's parser if the text is invalid.
pub fn check(text: &str) -> Result<(), String> {
    follow(text, "2006-01-02T15:04:05Z07:00", false)
}

/// Checks the text of a `MicroTime`: RFC 3339 with exactly six decimals of the second.
///
/// # Errors
/// Fails with the message of Go's parser if the text is invalid.
pub fn check_micro(text: &str) -> Result<(), String> {
    follow(text, "2006-01-02T15:04:05.000000Z07:00", true)
}

/// Parses a text part by part, up to the first part that does not match the layout.
fn follow(text: &str, layout: &str, micro: bool) -> Result<(), String> {
    let refuse = |rest: &str, part: &str| {
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
    };
    let mut rest = text;
    let parts = if micro {
        PARTS
    } else {
        &PARTS[..PARTS.len() - 1]
    };
    for part in parts {
        let fits = |found: &str| {
            found.bytes().zip(part.bytes()).all(|(found, wanted)| {
                if wanted.is_ascii_digit() {
                    found.is_ascii_digit()
                } else {
                    found == wanted
                }
            })
        };
        match rest.get(..part.len()) {
            Some(found) if fits(found) => rest = &rest[part.len()..],
            _ => return Err(refuse(rest, part)),
        }
    }
    if !micro && let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let zone = rest.starts_with(['Z', '+', '-']);
    if !zone || text.parse::<jiff::Timestamp>().is_err() {
        return Err(refuse(rest, "Z07:00"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_micro_time_has_exactly_six_digits_of_a_second() {
        for good in [
            "2019-01-02T03:04:05.000006Z",
            "2019-01-02T03:04:05.000000+01:00",
        ] {
            assert_eq!(check_micro(good), Ok(()), "{good}");
        }
        for (bad, rest) in [
            ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
            ("2019-01-02T03:04:05Z", "cannot parse \"Z\" as \".000000\""),
            (
                "2019-01-02T03:04:05.5Z",
                "cannot parse \".5Z\" as \".000000\"",
            ),
            (
                "2019-01-02T03:04:05.5000000Z",
                "cannot parse \"0Z\" as \"Z07:00\"",
            ),
            ("", "cannot parse \"\" as \"2006\""),
            ("2019-é", "cannot parse \"é\" as \"01\""),
        ] {
            let message = check_micro(bad).unwrap_err();
            assert!(message.ends_with(rest), "{message}");
        }
    }
}
