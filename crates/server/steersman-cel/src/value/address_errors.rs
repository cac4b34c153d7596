//! Words: the error messages of Go's `netip.ParseAddr` for texts that are no IP addresses.

pub(crate) fn describe(text: &str) -> String {
    let kind = text.find(['.', ':', '%']);
    let (what, at) = match kind.map(|at| &text[at..=at]) {
        Some(".") => four(text).unwrap_or(("unable to parse IP", "")),
        Some(":") => six(text).unwrap_or(("unable to parse IP", "")),
        Some(_) => ("missing IPv6 address", ""),
        None => ("unable to parse IP", ""),
    };
    let at = if at.is_empty() {
        String::new()
    } else {
        format!(" (at {at:?})")
    };
    format!("ParseAddr({text:?}): {what}{at}")
}

/// An error message, and the text from the error's position to the end; empty if the message states no position.
type FoundProblem<'a> = (&'static str, &'a str);

fn four(text: &str) -> Option<FoundProblem<'_>> {
    let (mut value, mut digits, mut fields) = (0_u32, 0, 0);
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        match c.to_digit(10) {
            Some(_) if digits == 1 && value == 0 => {
                return Some(("IPv4 field has octet with leading zero", ""));
            }
            Some(digit) => {
                value = value * 10 + digit;
                digits += 1;
                if value > 255 {
                    return Some(("IPv4 field has value >255", ""));
                }
            }
            None if c == '.' => {
                if digits == 0 || rest.len() == 1 {
                    return Some(("IPv4 field must have at least one digit", rest));
                }
                if fields == 3 {
                    return Some(("IPv4 address too long", ""));
                }
                (value, digits, fields) = (0, 0, fields + 1);
            }
            None => return Some(("unexpected character", rest)),
        }
    }
    (fields < 3).then_some(("IPv4 address too short", ""))
}

fn six(text: &str) -> Option<FoundProblem<'_>> {
    let (mut rest, zone) = text.split_once('%').unwrap_or((text, "zone"));
    if zone.is_empty() {
        return Some(("zone must be a non-empty string", ""));
    }
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return None;
        }
    }
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit());
        let digits = digits.unwrap_or(rest.len());
        if digits > 4 {
            return Some(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            let what = "each colon-separated field must have at least one digit";
            return Some((what, rest));
        }
        if rest[digits..].starts_with('.') {
            if gap.is_none() && bytes != 12 {
                let what = "embedded IPv4 address must replace the final 2 fields of the address";
                return Some((what, rest));
            }
            if bytes > 12 {
                let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Some((what, rest));
            }
            if let Some(found) = four(rest) {
                return Some(found);
            }
            rest = "";
            bytes += 4;
            break;
        }
        bytes += 2;
        rest = &rest[digits..];
        let Some(after) = rest.strip_prefix(':') else {
            if rest.is_empty() {
                break;
            }
            return Some(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Some(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Some(("multiple :: in address", rest));
            }
            gap = Some(bytes);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    match gap {
        _ if !rest.is_empty() => Some(("trailing garbage after address", rest)),
        None if bytes < 16 => Some(("address string too short", "")),
        Some(_) if bytes == 16 => Some(("the :: must expand to at least one field of zeros", "")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        for (text, expected) in [
            ("x", "unable to parse IP"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("01.2.3.4", "IPv4 field has octet with leading zero"),
            ("256.1.1.1", "IPv4 field has value >255"),
            ("1.2.3.a", "unexpected character (at \"a\")"),
            (
                "1..2.3",
                "IPv4 field must have at least one digit (at \".2.3\")",
            ),
            (
                "::g",
                "each colon-separated field must have at least one digit (at \"g\")",
            ),
            ("1:2", "address string too short"),
            (
                "12345::",
                "each group must have 4 or less digits (at \"12345::\")",
            ),
            (
                "1:2:3:4:5:6:7:8:9",
                "trailing garbage after address (at \"9\")",
            ),
            ("::1.2.3", "IPv4 address too short"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("%a", "missing IPv6 address"),
        ] {
            assert_eq!(describe(text), format!("ParseAddr({text:?}): {expected}"));
        }
    }
}
