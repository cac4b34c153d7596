//! Words: the first syntax error of a regular expression, as Go's parser reports it.
//!
//! Go's syntax is almost that of the crate `regex`, which runs the patterns here, but Go refuses
//! more: stacked repetitions, counts above a thousand, escapes of letters. This module reads a
//! pattern from left to right as `regexp/syntax` does, up to the first error.

use regex::Regex;

/// The largest count of a repetition.
const MOST_TIMES: u32 = 1000;

/// The names of classes between `[:` and `:]`.
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

type Found = Result<usize, String>;

/// Returns the first error in a pattern, and `None` for a pattern that Go accepts.
#[must_use]
pub fn mistake(pattern: &str) -> Option<String> {
    look(pattern).err()
}

fn wrong<T>(what: &str, part: &str) -> Result<T, String> {
    Err(format!("{what}: `{part}`"))
}

fn look(pattern: &str) -> Result<(), String> {
    let mut at = 0;
    // The largest number of repetitions within each open group. The first entry is the pattern
    // itself.
    let mut groups = vec![1_u32];
    // The operand of a following repetition: the number of repetitions within the operand, and the
    // start of the repetition before it.
    let (mut argument, mut repeated) = (None, None);
    while let Some(first) = pattern[at..].chars().next() {
        let rest = &pattern[at..];
        let last = repeated.take();
        let repetition = match first {
            '*' | '+' | '?' => Some((1, 1)),
            '{' => count(rest)?,
            _ => None,
        };
        if let Some((length, times)) = repetition {
            let lazy = rest[length..].starts_with('?');
            let end = at + length + usize::from(lazy);
            if let Some(begin) = last {
                return wrong("invalid nested repetition operator", &pattern[begin..end]);
            }
            let Some(within) = argument else {
                return wrong("missing argument to repetition operator", &pattern[at..end]);
            };
            let all = times.saturating_mul(within);
            if all > MOST_TIMES {
                return wrong("invalid repeat count", &pattern[at..end]);
            }
            note(&mut groups, all);
            argument = Some(all.max(1));
            repeated = Some(at);
            at = end;
            continue;
        }
        match first {
            '(' => {
                let (length, opens) = group(rest)?;
                if opens {
                    groups.push(1);
                    // Flags alone keep the operand before them.
                    argument = None;
                }
                at += length;
            }
            '|' => {
                argument = None;
                at += 1;
            }
            ')' => {
                let closed = groups.pop().unwrap_or(1);
                if groups.is_empty() {
                    return wrong("unexpected )", pattern);
                }
                note(&mut groups, closed);
                argument = Some(closed);
                at += 1;
            }
            '[' => {
                at += class(rest)?;
                argument = Some(1);
            }
            '\\' => {
                at += match rest.strip_prefix("\\Q") {
                    Some(quoted) => quoted.find("\\E").map_or(rest.len(), |end| end + 4),
                    None if ["\\A", "\\b", "\\B", "\\z"]
                        .iter()
                        .any(|one| rest.starts_with(one)) =>
                    {
                        2
                    }
                    None => escape(rest)?.1,
                };
                argument = Some(1);
            }
            other => {
                at += other.len_utf8();
                argument = Some(1);
            }
        }
    }
    if groups.len() > 1 {
        return wrong("missing closing )", pattern);
    }
    Ok(())
}

/// Records the number of repetitions of an operand in the innermost open group. Nested repetitions
/// multiply (`regexp/syntax`, `repeatIsValid`).
fn note(groups: &mut [u32], times: u32) {
    if let Some(most) = groups.last_mut() {
        *most = times.max(*most);
    }
}

/// Returns the length and the count of a repetition in braces. Other braces are literals.
fn count(rest: &str) -> Result<Option<(usize, u32)>, String> {
    let Some(end) = rest.find('}') else {
        return Ok(None);
    };
    let number = |digits: &str| {
        let plain = !digits.is_empty()
            && digits.bytes().all(|digit| digit.is_ascii_digit())
            && (digits.len() == 1 || !digits.starts_with('0'));
        plain.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let inner = &rest[1..end];
    let (least, most) = match inner.split_once(',') {
        None => (number(inner), number(inner)),
        Some((least, "")) => (number(least), number(least)),
        Some((least, most)) => (number(least), number(most)),
    };
    let (Some(least), Some(most)) = (least, most) else {
        return Ok(None);
    };
    if least > MOST_TIMES || most > MOST_TIMES || least > most {
        return wrong("invalid repeat count", &rest[..=end]);
    }
    // A repetition without an upper bound may contain repetitions that have one.
    let times = if inner.ends_with(',') {
        least.max(1)
    } else {
        most
    };
    Ok(Some((end + 1, times)))
}

/// Returns the length of a group's opening, and whether a group begins: flags alone begin none.
fn group(rest: &str) -> Result<(usize, bool), String> {
    let Some(inner) = rest.strip_prefix("(?") else {
        return Ok((1, true));
    };
    for lead in ["P<", "<"] {
        let Some(named) = inner.strip_prefix(lead).filter(|named| !named.is_empty()) else {
            continue;
        };
        let Some(end) = named.find('>') else {
            return wrong("invalid named capture", rest);
        };
        let length = 2 + lead.len() + end + 1;
        let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
        if end == 0 || !named[..end].chars().all(word) {
            return wrong("invalid named capture", &rest[..length]);
        }
        return Ok((length, true));
    }
    let (mut taken, mut minus, mut flag) = (2, false, false);
    for c in inner.chars() {
        taken += c.len_utf8();
        match c {
            'i' | 'm' | 's' | 'U' => flag = true,
            '-' if !minus => (minus, flag) = (true, false),
            ':' | ')' if !minus || flag => return Ok((taken, c == ':')),
            _ => break,
        }
    }
    wrong("invalid or unsupported Perl syntax", &rest[..taken])
}

/// Returns the length of a class in brackets.
fn class(whole: &str) -> Found {
    let mut at = if whole.starts_with("[^") { 2 } else { 1 };
    let mut first = true;
    while first || !whole[at..].starts_with(']') {
        first = false;
        let rest = &whole[at..];
        if let Some(end) = rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
            let name = &rest[2..end + 2];
            if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return wrong("invalid character class range", &rest[..end + 4]);
            }
            at += end + 4;
            continue;
        }
        let (low, length) = member(rest, whole)?;
        at += length;
        let Some(low) = low else {
            continue;
        };
        let above = whole[at..].strip_prefix('-');
        if let Some(above) = above.filter(|above| !above.is_empty() && !above.starts_with(']')) {
            let (high, length) = member(above, whole)?;
            at += 1 + length;
            if high.is_some_and(|high| high < low) {
                let part = &rest[..rest.len() - whole[at..].len()];
                return wrong("invalid character class range", part);
            }
        }
    }
    Ok(at + 1)
}

/// Returns a literal character of a class and its length.
fn member(rest: &str, whole: &str) -> Result<(Option<char>, usize), String> {
    match rest.chars().next() {
        None => wrong("missing closing ]", whole),
        Some('\\') => escape(rest),
        Some(c) => Ok((Some(c), c.len_utf8())),
    }
}

/// Returns the literal character that an escape stands for, if there is one, and the length of the
/// escape.
fn escape(rest: &str) -> Result<(Option<char>, usize), String> {
    let Some(c) = rest[1..].chars().next() else {
        return wrong("trailing backslash at end of expression", "");
    };
    let length = 1 + c.len_utf8();
    let refuse = |length: usize| wrong("invalid escape sequence", &rest[..length]);
    let after = &rest[length..];
    match c {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok((None, length)),
        'p' | 'P' => {
            let name = match after.strip_prefix('{') {
                Some(name) => name.find('}').map_or(0, |end| end + 2),
                None => after.chars().next().map_or(0, char::len_utf8),
            };
            let part = if name == 0 {
                rest
            } else {
                &rest[..length + name]
            };
            let known = part.replacen("{^", "{", 1);
            if name == 0 || (known != "\\p{Any}" && Regex::new(&known).is_err()) {
                return wrong("invalid character class range", part);
            }
            Ok((None, length + name))
        }
        'x' => {
            let digits = |text: &str| {
                let value = u32::from_str_radix(text, 16).ok();
                value.and_then(char::from_u32)
            };
            let (text, end) = match after.strip_prefix('{') {
                Some(inner) => match inner.find('}') {
                    Some(close) => (&inner[..close], length + close + 2),
                    None => return refuse(rest.len()),
                },
                None => match after.get(..2) {
                    Some(two) => (two, length + 2),
                    None => return refuse(rest.len()),
                },
            };
            match digits(text).filter(|_| !text.starts_with('+')) {
                Some(value) => Ok((Some(value), end)),
                None => refuse(end),
            }
        }
        '0' => Ok((Some('\0'), length)),
        '1'..='7' if after.starts_with(|next: char| matches!(next, '0'..='7')) => {
            let digits = after.bytes().take(2);
            let octal = digits
                .take_while(|digit| matches!(digit, b'0'..=b'7'))
                .count();
            let value = u32::from_str_radix(&rest[1..length + octal], 8).ok();
            Ok((value.and_then(char::from_u32), length + octal))
        }
        'a' => Ok((Some('\u{7}'), length)),
        'f' => Ok((Some('\u{c}'), length)),
        'n' => Ok((Some('\n'), length)),
        'r' => Ok((Some('\r'), length)),
        't' => Ok((Some('\t'), length)),
        'v' => Ok((Some('\u{b}'), length)),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok((Some(c), length)),
        _ => refuse(length),
    }
}

#[cfg(test)]
mod tests {
    use super::mistake;

    /// The errors and messages are those of Go's own `regexp` tests and of `regexp/syntax`.
    #[test]
    fn syntax_errors_have_the_messages_of_go() {
        for (pattern, expected) in [
            ("*", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(+?)", "missing argument to repetition operator: `+?`"),
            ("(abc", "missing closing ): `(abc`"),
            ("abc)", "unexpected ): `abc)`"),
            ("x[a-z", "missing closing ]: `[a-z`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
            ("abc\\", "trailing backslash at end of expression: ``"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*+", "invalid nested repetition operator: `*+`"),
            ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("((a{100}){0,}){11}", "invalid repeat count: `{11}`"),
            ("((a{100}){11}b)", "invalid repeat count: `{11}`"),
            (
                "(x|(a{2}){,3}|(?:b{501})+){2}?",
                "invalid repeat count: `{2}?`",
            ),
            ("\\q", "invalid escape sequence: `\\q`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
            ("(?!x)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
        ] {
            assert_eq!(mistake(pattern).as_deref(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_go_accepts_have_no_error() {
        for pattern in [
            "",
            "^a(b|c)*$",
            "a{2}",
            "a{,3}",
            "a{x",
            "{",
            "[]a]",
            "[^]]",
            "[a-]",
            "[\\]a]",
            "\\.\\-\\/",
            "(?i)a",
            "(?i-s:a)+",
            "(?P<n>a)",
            "(?<n>a)",
            "\\pL\\p{Greek}\\p{^Greek}",
            "\\Q**\\E*",
            "[[:alpha:][:^digit:]]",
            "a*?",
            "\\x41\\x{1F600}",
            "[\\x41-\\x5a]",
            "^[0-9]+%$",
            "é+",
        ] {
            assert_eq!(mistake(pattern), None, "{pattern}");
        }
    }
}
