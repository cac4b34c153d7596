//! Words: character classes and escapes of patterns.

use std::fmt::Write as _;

use regex::Regex;

use super::wrong;

/// The names of classes between `[:` and `:]`, with the ranges of their characters.
const NAMED: &[(&str, &str)] = &[
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", r"\x00-\x7F"),
    ("blank", r"\t\x20"),
    ("cntrl", r"\x00-\x1F\x7F"),
    ("digit", "0-9"),
    ("graph", r"\x21-\x7E"),
    ("lower", "a-z"),
    ("print", r"\x20-\x7E"),
    ("punct", r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E"),
    ("space", r"\t-\r\x20"),
    ("upper", "A-Z"),
    ("word", r"0-9A-Za-z_"),
    ("xdigit", "0-9A-Fa-f"),
];

/// The scripts with a name of four letters. Go does not know the codes of scripts.
const SHORT_SCRIPTS: &[&str] = &["ahom", "cham", "kawi", "lisu", "thai", "toto"];

/// The Unicode scripts for which Go has no table.
const NO_SCRIPTS: &[&str] = &["unknown", "katakanaorhiragana"];

/// A class without characters.
const EMPTY: &str = r"[^\x{0}-\x{10FFFF}]";

/// The meaning of an escape: a literal character, or a class.
pub(super) enum Escape {
    Character(char),
    /// A class in the syntax of the crate `regex`.
    Class(String),
}

/// Translates a class in brackets. Returns the translation and the length of the class in the pattern.
pub(super) fn bracketed(whole: &str) -> Result<(String, usize), String> {
    let negated = whole.starts_with("[^");
    let mut at = if negated { 2 } else { 1 };
    let mut out = whole[..at].to_owned();
    let mut first = true;
    while first || !whole[at..].starts_with(']') {
        first = false;
        let rest = &whole[at..];
        if let Some(end) = rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
            let name = &rest[2..end + 2];
            let (name, sign) = name
                .strip_prefix('^')
                .map_or((name, ""), |name| (name, "^"));
            let Some((_, ranges)) = NAMED.iter().find(|(known, _)| *known == name) else {
                return wrong("invalid character class range", &rest[..end + 4]);
            };
            let _ = write!(out, "[{sign}{ranges}]");
            at += end + 4;
            continue;
        }
        let (low, length) = member(rest, whole)?;
        at += length;
        let low = match low {
            Escape::Character(low) => low,
            Escape::Class(text) => {
                out.push_str(&text);
                continue;
            }
        };
        let mut high = low;
        let above = whole[at..].strip_prefix('-');
        if let Some(above) = above.filter(|above| !above.is_empty() && !above.starts_with(']')) {
            let (end, length) = member(above, whole)?;
            at += 1 + length;
            high = match end {
                Escape::Character(high) => high,
                Escape::Class(_) => {
                    return wrong("invalid escape sequence", &above[..2]);
                }
            };
        }
        if high < low {
            let part = &rest[..rest.len() - whole[at..].len()];
            return wrong("invalid character class range", part);
        }
        let (low, high) = (u32::from(low), u32::from(high));
        let _ = write!(out, "\\x{{{low:X}}}-\\x{{{high:X}}}");
    }
    out.push(']');
    Ok((out, at + 1))
}

/// Reads one character or escape in a class. Returns its length in the pattern.
fn member(rest: &str, whole: &str) -> Result<(Escape, usize), String> {
    match rest.chars().next() {
        None => wrong("missing closing ]", whole),
        Some('\\') => escape(rest),
        Some(c) => Ok((Escape::Character(c), c.len_utf8())),
    }
}

/// Reads an escape. Returns its length in the pattern.
pub(super) fn escape(rest: &str) -> Result<(Escape, usize), String> {
    let Some(c) = rest[1..].chars().next() else {
        return wrong("trailing backslash at end of expression", "");
    };
    let length = 1 + c.len_utf8();
    let refuse = |length: usize| wrong("invalid escape sequence", &rest[..length]);
    let character = |c: char, length| Ok((Escape::Character(c), length));
    let class = |text: &str| Ok((Escape::Class(text.to_owned()), length));
    let after = &rest[length..];
    match c {
        'd' => class("[0-9]"),
        'D' => class("[^0-9]"),
        's' => class(r"[\t\n\f\r\x20]"),
        'S' => class(r"[^\t\n\f\r\x20]"),
        'w' => class("[0-9A-Za-z_]"),
        'W' => class("[^0-9A-Za-z_]"),
        'p' | 'P' => unicode(rest),
        'x' => hexadecimal(rest),
        '1'..='7' if !after.starts_with(|next: char| matches!(next, '0'..='7')) => refuse(length),
        '0'..='7' => {
            let digits = after.bytes().take(2);
            let is_octal = |digit: &u8| matches!(digit, b'0'..=b'7');
            let octal = digits.take_while(is_octal).count();
            let value = u32::from_str_radix(&rest[1..length + octal], 8).ok();
            let value = value.and_then(char::from_u32).unwrap_or_default();
            character(value, length + octal)
        }
        'a' => character('\u{7}', length),
        'f' => character('\u{c}', length),
        'n' => character('\n', length),
        'r' => character('\r', length),
        't' => character('\t', length),
        'v' => character('\u{b}', length),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => character(c, length),
        _ => refuse(length),
    }
}

/// Reads an escape with the number of a character, such as `\x41` or `\x{1F600}`.
fn hexadecimal(rest: &str) -> Result<(Escape, usize), String> {
    let inner = rest[2..].strip_prefix('{');
    let digits = inner.unwrap_or(&rest[2..]);
    let start = rest.len() - digits.len();
    let mut value = 0_u32;
    let mut wrong_digit = false;
    let mut count = 0;
    let mut end = rest.len();
    for (at, c) in digits.char_indices() {
        let after = start + at + c.len_utf8();
        if inner.is_some() && c == '}' && count > 0 {
            return Ok((numbered(value), after));
        }
        match c.to_digit(16) {
            Some(digit) => value = value.saturating_mul(16).saturating_add(digit),
            None => wrong_digit = true,
        }
        count += 1;
        let too_high = value > u32::from(char::MAX);
        if inner.is_some() && (wrong_digit || too_high) || inner.is_none() && count == 2 {
            end = after;
            break;
        }
    }
    if inner.is_none() && count == 2 && !wrong_digit {
        return Ok((numbered(value), end));
    }
    wrong("invalid escape sequence", &rest[..end])
}

/// Returns the character with a number. A surrogate is an empty class, because no text contains it.
fn numbered(value: u32) -> Escape {
    match char::from_u32(value) {
        Some(c) => Escape::Character(c),
        None => Escape::Class(EMPTY.to_owned()),
    }
}

/// Reads a class with the name of a category or a script, such as `\pL` or `\p{^Greek}`.
fn unicode(rest: &str) -> Result<(Escape, usize), String> {
    let refuse = |length: usize| wrong("invalid character class range", &rest[..length]);
    let after = &rest[2..];
    let (name, length) = match after.strip_prefix('{') {
        Some(inner) => match inner.find('}') {
            Some(end) => (&inner[..end], 2 + end + 2),
            None => return refuse(rest.len()),
        },
        None => {
            let length = after.chars().next().map_or(0, char::len_utf8);
            (&after[..length], 2 + length)
        }
    };
    let (name, inverted) = name
        .strip_prefix('^')
        .map_or((name, false), |name| (name, true));
    let negated = rest.starts_with("\\P") != inverted;
    let letter = if negated { "\\P" } else { "\\p" };
    let plain = name.to_ascii_lowercase().replace(['_', '-', ' '], "");
    if matches!(plain.as_str(), "cs" | "surrogate") {
        let text = if negated {
            r"[\x{0}-\x{10FFFF}]"
        } else {
            EMPTY
        };
        return Ok((Escape::Class(text.to_owned()), length));
    }
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return refuse(length);
    }
    let is_script = (plain.len() != 4 || SHORT_SCRIPTS.contains(&plain.as_str()))
        && !NO_SCRIPTS.contains(&plain.as_str());
    let mut forms = Vec::new();
    if matches!(plain.as_str(), "any" | "ascii" | "assigned") {
        forms.push(format!("{letter}{{{plain}}}"));
    }
    forms.push(format!("{letter}{{gc={plain}}}"));
    if is_script {
        forms.push(format!("{letter}{{sc={plain}}}"));
    }
    match forms.into_iter().find(|form| Regex::new(form).is_ok()) {
        Some(text) => Ok((Escape::Class(text), length)),
        None => refuse(length),
    }
}
