//! Machine: turns the problems that the YAML parser reports into the messages of Go's reader.

use granit_parser::{ErrorKind, ScanError};

/// Maximum nesting of values in YAML, the same as in JSON.
pub(super) const DEEPEST: usize = 127;

/// A repair of a text that Go's reader accepts and the parser refuses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Repair {
    /// A line of a quoted text, counted from one, gets more indentation.
    Indent(usize),
    /// A comment at this byte, directly behind a token, gets a space before it.
    Separate(usize),
}

/// The way in which Go counts the line of a problem; it never names the first line.
#[derive(Debug, Clone, Copy)]
enum Counts {
    Scanner,
    Parser,
    /// The line of the first tab at the start of a line counts.
    Tab,
    /// The message has no line.
    Never,
}

/// A part of the parser's message, Go's words, and how Go counts the line. The table is not formatted, so that a row
/// takes one line.
#[rustfmt::skip]
const PROBLEMS: [(&str, &str, Counts); 19] = [
    ("handle wasn't declared", "found undefined tag handle", Counts::Parser),
    ("implicit flow mapping", "did not find expected node content", Counts::Parser),
    ("illegal placement of ':'", "did not find expected ',' or ']'", Counts::Parser),
    ("only valid inside a block", "did not find expected node content", Counts::Parser),
    ("tabs disallowed", "found character that cannot start any token", Counts::Scanner),
    ("unexpected character: ", "found character that cannot start any token", Counts::Scanner),
    ("expected comment or line break", "did not find expected comment or line break", Counts::Scanner),
    ("unknown escape character", "found unknown escape character", Counts::Scanner),
    ("hexadecimal number", "did not find expected hexdecimal number", Counts::Scanner),
    ("surrogate", "found invalid Unicode character escape code", Counts::Scanner),
    ("expected alphabetic or numeric character", "did not find expected alphabetic or numeric character", Counts::Scanner),
    ("cannot start with a tab", "found a tab character where an indentation space is expected", Counts::Tab),
    ("plain scalar, found a tab", "found a tab character that violates indentation", Counts::Tab),
    ("misplaced bracket", "did not find expected node content", Counts::Parser),
    ("invalid trailing content", "did not find expected key", Counts::Parser),
    ("unsupported YAML major version", "found incompatible YAML document", Counts::Parser),
    ("duplicate version directive", "found duplicate %YAML directive", Counts::Parser),
    ("merge value must be", "map merge requires map or sequence of maps as the value", Counts::Never),
    ("invalid !!binary base64", "!!binary value contains invalid base64 data", Counts::Never),
];

/// Returns the body of a request as text.
///
/// # Errors
/// Fails with Go's message if the body has bytes that YAML does not allow, which Go's reader finds first.
pub(super) fn readable(body: &[u8]) -> Result<&str, String> {
    match (unreadable(body), std::str::from_utf8(body)) {
        (None, Ok(text)) => Ok(text),
        (why, _) => Err(why.unwrap_or("invalid leading UTF-8 octet").to_owned()),
    }
}

pub(super) fn too_deep(line: usize) -> String {
    on_line(&format!("exceeded max depth of {DEEPEST}"), scanner(line))
}

/// Returns Go's message for a problem of a text, with the line that Go reports, if any.
pub(super) fn in_go_words(error: &ScanError, text: &str) -> String {
    let (why, line) = worded(error, text.as_bytes());
    on_line(&why, line)
}

fn on_line(why: &str, line: usize) -> String {
    if line > 0 {
        format!("line {line}: {why}")
    } else {
        why.to_owned()
    }
}

fn worded(error: &ScanError, text: &[u8]) -> (String, usize) {
    let line = error.marker().line();
    let problem = error.kind().to_string();
    let is = |part: &str| problem.contains(part);
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
    if let ErrorKind::RecursionLimitExceeded = error.kind() {
        return (format!("exceeded max depth of {DEEPEST}"), scanner(line));
    }
    if let ErrorKind::SimpleKeyExpected = error.kind() {
        let why = "could not find expected ':'".to_owned();
        return (why, next_content(line, text));
    }
    if let Some((_, why, counts)) = PROBLEMS.iter().find(|(part, _, _)| is(part)) {
        return ((*why).to_owned(), count(*counts, line, text));
    }
    if let Some((while_, why)) = problem.split_once(", ")
        && let Some(what) = while_.strip_prefix("while ")
    {
        let is_parser = what.starts_with("parsing a block") || what.starts_with("parsing a flow");
        let counts = if is_parser {
            Counts::Parser
        } else {
            Counts::Scanner
        };
        return (why.to_owned(), count(counts, line, text));
    }
    if problem.contains("EOF while parsing a block") {
        let why = "did not find expected node content".to_owned();
        return (why, count(Counts::Parser, line, text));
    }
    (problem, count(Counts::Scanner, line, text))
}

/// Refuses a node behind a tab where Go's scanner does not accept one: at the start of a line, and behind the indicator
/// of an item or of a key. `before` is the text before the node.
///
/// # Errors
/// Fails with the message of Go's scanner.
pub(super) fn check_tab(before: &str, line: usize) -> Result<(), String> {
    let blank = before.trim_end_matches([' ', '\t']);
    let has_tab = before[blank.len()..].contains('\t');
    if has_tab && (blank.is_empty() || blank.ends_with(['\n', '\r', '-', '?'])) {
        let why = "found character that cannot start any token";
        return Err(on_line(why, scanner(line)));
    }
    Ok(())
}

/// Refuses the name of an anchor with characters that YAML 1.1 does not allow in it.
///
/// # Errors
/// Fails with the message of Go's scanner.
pub(super) fn check_anchor(name: &str, line: usize) -> Result<(), String> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.bytes().all(is_known) {
        return Ok(());
    }
    let why = "did not find expected alphabetic or numeric character";
    Err(on_line(why, scanner(line)))
}

/// Refuses escapes of JSON that Go's scanner does not know. The text `quoted` starts on this line.
///
/// # Errors
/// Fails with the message of Go's scanner.
pub(super) fn check_escapes(quoted: &str, line: usize) -> Result<(), String> {
    let mut escapes = quoted.char_indices();
    while let Some((at, c)) = escapes.next() {
        if c != '\\' {
            continue;
        }
        let is_surrogate = || {
            let digits = quoted.get(at + 2..at + 6);
            let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            code.is_some_and(|code| (0xd800..0xe000).contains(&code))
        };
        let why = match escapes.next() {
            Some((_, '/')) => "found unknown escape character",
            Some((_, 'u')) if is_surrogate() => "found invalid Unicode character escape code",
            _ => continue,
        };
        let breaks = quoted[..at].matches('\n').count();
        return Err(on_line(why, scanner(line + breaks)));
    }
    Ok(())
}

/// Returns a text with a repair; `None` if the repair is impossible.
pub(super) fn repaired(text: &str, repair: Repair) -> Option<String> {
    match repair {
        Repair::Indent(line) => indented(text, line),
        Repair::Separate(at) => {
            let (before, rest) = text.split_at_checked(at)?;
            let (token, comment) = rest.split_at(rest.find('#')?);
            Some(format!("{before}{token} {comment}"))
        }
    }
}

/// Returns a text in which a line of a quoted text has more indentation, which is no part of the quoted text, and which
/// Go's scanner accepts. `None` for a line that ends the document.
fn indented(text: &str, line: usize) -> Option<String> {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    let (before, rest) = text.split_at(lines.map(str::len).sum());
    let content = rest.trim_start_matches([' ', '\t']);
    let ends = ["---", "..."].iter().any(|mark| {
        let after = rest.strip_prefix(mark);
        after.is_some_and(|after| after.is_empty() || after.starts_with([' ', '\t', '\r', '\n']))
    });
    // The new indentation is longer than any line before, and so more than any indentation.
    let widest = before.lines().map(str::len).max().unwrap_or_default();
    let indent = " ".repeat(widest.min(1024) + 1);
    (!ends).then(|| format!("{before}{indent}{content}"))
}

/// Returns the line, after a line, at which Go's scanner continues: it skips empty lines.
fn next_content(line: usize, text: &[u8]) -> usize {
    let after = text.split_inclusive(|byte| *byte == b'\n').skip(line);
    let is_empty = |line: &&[u8]| line.trim_ascii().is_empty();
    line + 1 + after.take_while(is_empty).count()
}

/// Returns the line in a message of Go's scanner: none for the first line.
fn scanner(line: usize) -> usize {
    if line > 1 { line } else { 0 }
}

fn count(counts: Counts, line: usize, text: &[u8]) -> usize {
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

/// Returns the message about bytes that YAML does not allow, which Go's reader finds first.
fn unreadable(text: &[u8]) -> Option<&'static str> {
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\n\r".contains(byte);
    match std::str::from_utf8(text) {
        Ok(_) if text.iter().any(is_control) => Some("control characters are not allowed"),
        Ok(_) => None,
        Err(error) if error.error_len().is_none() => Some("incomplete UTF-8 octet sequence"),
        Err(error) => match text.get(error.valid_up_to()) {
            Some(0xC2..=0xF4) => Some("invalid trailing UTF-8 octet"),
            _ => Some("invalid leading UTF-8 octet"),
        },
    }
}

/// Returns the message for a list or a map in brackets that is not closed at the end of the text, or with `closed`, at
/// the first closing bracket of the other kind.
fn unclosed(text: &[u8], is_list: bool, closed: bool) -> &'static str {
    let wrong = if is_list { b'}' } else { b']' };
    let end = text.iter().position(|byte| closed && *byte == wrong);
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

#[cfg(test)]
mod tests {
    use crate::yaml::parse;

    /// The messages are those of Go's `sigs.k8s.io/yaml`.
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
            assert_eq!(
                parse(text.as_bytes()).unwrap_err(),
                format!("yaml: {problem}"),
                "{text}"
            );
        }
        for (bytes, problem) in [
            (&b"a: \xff"[..], "invalid leading UTF-8 octet"),
            (&b"a: \xc3b"[..], "invalid trailing UTF-8 octet"),
            (&b"a: \xe2\x82"[..], "incomplete UTF-8 octet sequence"),
        ] {
            assert_eq!(parse(bytes).unwrap_err(), format!("yaml: {problem}"));
        }
    }
}
