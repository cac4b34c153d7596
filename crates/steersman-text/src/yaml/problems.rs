//! Machine: words the problems of the YAML parser as Go's reader does.

use super::too_deep;

/// How Go counts the line of a problem. Its scanner counts lines from one and its parser from zero,
/// and neither names the first line.
#[derive(Debug, Clone, Copy)]
enum Counts {
    Scanner,
    Parser,
    /// The line of the first tab at the start of a line.
    Tab,
    /// No line.
    Never,
}

/// A part of the parser's message, Go's words, and how Go counts the line.
const PROBLEMS: [(&str, &str, Counts); 15] = [
    (
        "tabs disallowed",
        "found character that cannot start any token",
        Counts::Scanner,
    ),
    (
        "unexpected character: ",
        "found character that cannot start any token",
        Counts::Scanner,
    ),
    (
        "expected comment or line break",
        "did not find expected comment or line break",
        Counts::Scanner,
    ),
    (
        "unknown escape character",
        "found unknown escape character",
        Counts::Scanner,
    ),
    (
        "hexadecimal number",
        "did not find expected hexdecimal number",
        Counts::Scanner,
    ),
    (
        "surrogate",
        "found invalid Unicode character escape code",
        Counts::Scanner,
    ),
    (
        "expected alphabetic or numeric character",
        "did not find expected alphabetic or numeric character",
        Counts::Scanner,
    ),
    (
        "cannot start with a tab",
        "found a tab character where an indentation space is expected",
        Counts::Tab,
    ),
    (
        "plain scalar, found a tab",
        "found a tab character that violates indentation",
        Counts::Tab,
    ),
    (
        "misplaced bracket",
        "did not find expected node content",
        Counts::Parser,
    ),
    (
        "invalid trailing content",
        "did not find expected key",
        Counts::Parser,
    ),
    (
        "unsupported YAML major version",
        "found incompatible YAML document",
        Counts::Parser,
    ),
    (
        "duplicate version directive",
        "found duplicate %YAML directive",
        Counts::Parser,
    ),
    (
        "merge value must be",
        "map merge requires map or sequence of maps as the value",
        Counts::Never,
    ),
    (
        "invalid !!binary base64",
        "!!binary value contains invalid base64 data",
        Counts::Never,
    ),
];

/// Returns a problem of a text as Go's reader words it, and its line or 0 for none.
pub(super) fn in_go_words(problem: &str, line: usize, text: &[u8]) -> (String, usize) {
    let is = |part: &str| problem.contains(part);
    if let Some(why) = unreadable(text) {
        return (why.to_owned(), 0);
    }
    if is("unclosed bracket") || is("mismatched bracket") {
        let is_list = is("bracket '['");
        let (why, at_end) = (unclosed(text, is_list, is("mismatched")), end_line(text));
        let line = if is("mismatched") {
            line.saturating_sub(1)
        } else {
            at_end
        };
        return (why.to_owned(), line);
    }
    if is("unclosed quote") || is("in multiline quoted scalar") {
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        let why = "found unexpected end of stream".to_owned();
        return (why, count(Counts::Scanner, lines + 1, text));
    }
    if is("unknown anchor") || is("weak recursion") {
        let name = alias(text, is("weak recursion"));
        let why = if is("unknown") {
            format!("unknown anchor '{name}' referenced")
        } else {
            format!("anchor '{name}' value contains itself")
        };
        return (why, 0);
    }
    if let Some(why) = too_deep(problem) {
        return (why, count(Counts::Scanner, line, text));
    }
    if let Some((_, why)) = problem.split_once("while parsing a block") {
        let detail = why.split_once(", ").map(|(_, detail)| detail);
        let why = detail.unwrap_or("did not find expected node content");
        return (why.to_owned(), count(Counts::Parser, line, text));
    }
    let known = PROBLEMS.iter().find(|(part, _, _)| is(part));
    let (why, counts) = known.map_or((problem, Counts::Scanner), |(_, why, counts)| {
        (*why, *counts)
    });
    (why.to_owned(), count(counts, line, text))
}

fn count(counts: Counts, line: usize, text: &[u8]) -> usize {
    let scanner = |line: usize| if line > 1 { line } else { 0 };
    match counts {
        Counts::Scanner => scanner(line),
        Counts::Parser => line.saturating_sub(1),
        Counts::Tab => {
            let mut lines = text.split(|byte| *byte == b'\n');
            let tab = lines.position(|line| line.starts_with(b"\t"));
            scanner(tab.map_or(line, |before| before + 1))
        }
        Counts::Never => 0,
    }
}

/// Returns the problem of bytes that no YAML holds, which Go's reader finds first.
fn unreadable(text: &[u8]) -> Option<&'static str> {
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\n\r".contains(byte);
    match std::str::from_utf8(text) {
        Ok(_) => text
            .iter()
            .any(is_control)
            .then_some("control characters are not allowed"),
        Err(error) if error.error_len().is_none() => Some("incomplete UTF-8 octet sequence"),
        Err(error) => match text.get(error.valid_up_to()) {
            Some(0xC2..=0xF4) => Some("invalid trailing UTF-8 octet"),
            _ => Some("invalid leading UTF-8 octet"),
        },
    }
}

/// Returns what a list or a map in brackets lacks at the end of the text, or with `closed` at the
/// first bracket that closes the other kind.
fn unclosed(text: &[u8], is_list: bool, closed: bool) -> &'static str {
    let end = if closed {
        let wrong = if is_list { b'}' } else { b']' };
        text.iter().position(|byte| *byte == wrong)
    } else {
        None
    };
    let before = text[..end.unwrap_or(text.len())].trim_ascii_end();
    match (before.last(), is_list) {
        (Some(b'[' | b'{' | b',' | b':'), _) => "did not find expected node content",
        (_, true) => "did not find expected ',' or ']'",
        (_, false) => "did not find expected ',' or '}'",
    }
}

/// Returns the line at which Go's scanner ends: it completes the last line.
fn end_line(text: &[u8]) -> usize {
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    lines + usize::from(!text.ends_with(b"\n"))
}

/// Returns the name of the first alias that has no anchor before it, or with `any` of the first one.
fn alias(text: &[u8], any: bool) -> String {
    let text = String::from_utf8_lossy(text);
    let name_of = |at: usize| {
        let rest = text[at + 1..].chars();
        let name = rest.take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c));
        name.collect::<String>()
    };
    let mut aliases = text.match_indices('*').map(|(at, _)| (at, name_of(at)));
    let found = aliases.find(|(at, name)| {
        let mut anchors = text[..*at].match_indices('&').map(|(at, _)| name_of(at));
        !name.is_empty() && (any || !anchors.any(|anchor| anchor == *name))
    });
    found.map_or_else(String::new, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use crate::yaml::parse;

    /// The problems of Go's `sigs.k8s.io/yaml`.
    #[test]
    fn problems_have_the_words_of_go() {
        for (text, problem) in [
            ("a: *x", "unknown anchor 'x' referenced"),
            ("&a a: b\nc: *b", "unknown anchor 'b' referenced"),
            ("a: &x [*x]", "anchor 'x' value contains itself"),
            ("a: [1, 2", "line 1: did not find expected ',' or ']'"),
            ("{a: b", "line 1: did not find expected ',' or '}'"),
            ("key: [\n", "line 1: did not find expected node content"),
            ("a: {b: c,\n", "line 1: did not find expected node content"),
            ("a: [}", "did not find expected node content"),
            ("- - -\n- ]", "line 1: did not find expected node content"),
            ("]", "did not find expected node content"),
            (",", "did not find expected node content"),
            ("a: |x\n b", "did not find expected comment or line break"),
            ("a: \"\\q\"", "found unknown escape character"),
            ("a: \"\\xZZ\"", "did not find expected hexdecimal number"),
            (
                "a: \"\\ud800\"",
                "found invalid Unicode character escape code",
            ),
            (
                "a: >\n\tb",
                "line 2: found a tab character where an indentation space is expected",
            ),
            (
                "a: b\n\tc: d",
                "line 2: found a tab character that violates indentation",
            ),
            ("a: 'b' c", "did not find expected key"),
            ("a: \x01", "control characters are not allowed"),
            (
                "a: *",
                "did not find expected alphabetic or numeric character",
            ),
            (
                "<<: 1",
                "map merge requires map or sequence of maps as the value",
            ),
            (
                "a: !!binary x",
                "!!binary value contains invalid base64 data",
            ),
            ("%YAML 3.0\n---\na", "found incompatible YAML document"),
            (
                "%YAML 1.1\n%YAML 1.1\n---\na",
                "line 1: found duplicate %YAML directive",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), problem, "{text}");
        }
        for (bytes, problem) in [
            (&b"a: \xff"[..], "invalid leading UTF-8 octet"),
            (&b"a: \xc3b"[..], "invalid trailing UTF-8 octet"),
            (&b"a: \xe2\x82"[..], "incomplete UTF-8 octet sequence"),
        ] {
            assert_eq!(parse(bytes).unwrap_err(), problem);
        }
    }
}
