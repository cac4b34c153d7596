//! Just enough of Rust's lexical grammar to tell code from comments, literals and tests.
//!
//! Everything it returns keeps the length and the lines of its input, so an offset into one view is
//! an offset into all of them.

use std::ops::Range;

/// A Rust file seen three ways.
#[derive(Debug)]
pub(crate) struct Source {
    /// Comments and literals are blanks.
    pub(crate) code: String,
    /// Everything except comments is blanks.
    pub(crate) comments: String,
    /// Where items under `#[cfg(test)]` are, attribute included.
    pub(crate) tests: Vec<Range<usize>>,
}

/// One token of code: an identifier or number, `::`, or a single other character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl Source {
    /// Reads a file; never fails, whatever the text is.
    pub(crate) fn of(text: &str) -> Self {
        let (code, comments) = split(text);
        let tests = test_items(&code);
        Self {
            code,
            comments,
            tests,
        }
    }

    /// The code with test items blanked as well.
    pub(crate) fn production(&self) -> String {
        let mut bytes = self.code.clone().into_bytes();
        for range in &self.tests {
            blank(&mut bytes[range.clone()]);
        }
        text_of(bytes)
    }

    /// Whether that offset lies in a test item.
    pub(crate) fn in_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }
}

/// The line of an offset, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The tokens of code that has no comments and literals any more.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut chars = code.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        if char.is_whitespace() {
            continue;
        }
        let mut end = at + char.len_utf8();
        if is_word(char) {
            while let Some((_, next)) = chars.next_if(|(_, next)| is_word(*next)) {
                end += next.len_utf8();
            }
        } else if char == ':' && chars.next_if(|(_, next)| *next == ':').is_some() {
            end += 1;
        }
        found.push(Token {
            text: &code[at..end],
            at,
        });
    }
    found
}

/// The index behind the bracket that closes the one at `open`, or the end.
pub(crate) fn close(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Whether a character belongs to an identifier or number.
pub(crate) fn is_word(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

/// What the scanner stands in.
enum Span {
    LineComment,
    BlockComment { end: usize },
    Literal { end: usize },
    Code,
}

fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut comments = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_code, is_comment) = match span(text, at) {
            Span::LineComment => {
                let end = bytes[at..].iter().position(|b| *b == b'\n');
                (end.map_or(bytes.len(), |length| at + length), false, true)
            }
            Span::BlockComment { end } => (end, false, true),
            Span::Literal { end } => (end, false, false),
            Span::Code => (word_end(text, at), true, false),
        };
        let end = end.clamp(at + 1, bytes.len());
        if !is_code {
            blank(&mut code[at..end]);
        }
        if !is_comment {
            blank(&mut comments[at..end]);
        }
        at = end;
    }
    (text_of(code), text_of(comments))
}

/// A whole word is taken at once, so that the `r` of `for"` never starts a raw string.
fn word_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let word: usize = rest
        .chars()
        .take_while(|c| is_word(*c))
        .map(char::len_utf8)
        .sum();
    at + if word > 0 {
        word
    } else {
        rest.chars().next().map_or(1, char::len_utf8)
    }
}

fn span(text: &str, at: usize) -> Span {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return Span::LineComment;
    }
    if rest.starts_with("/*") {
        return Span::BlockComment {
            end: at + block_comment(rest),
        };
    }
    let unprefixed = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - unprefixed.len();
    if prefix > 1 {
        return Span::Code;
    }
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = prefix + 1 + hashes + 1;
            let end = rest[body..]
                .find(&close)
                .map_or(rest.len(), |end| body + end + close.len());
            return Span::Literal { end: at + end };
        }
        return Span::Code;
    }
    if unprefixed.starts_with('"') {
        return Span::Literal {
            end: at + prefix + quoted(unprefixed, b'"'),
        };
    }
    let mut chars = unprefixed.chars();
    if chars.next() == Some('\'') {
        let first = chars.next();
        // A quote that is not closed behind one character opens a lifetime, not a literal.
        if first == Some('\\') || (first != Some('\'') && chars.next() == Some('\'')) {
            return Span::Literal {
                end: at + prefix + quoted(unprefixed, b'\''),
            };
        }
    }
    Span::Code
}

/// The length of a literal that starts with `quote`, both quotes included.
fn quoted(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Items under an attribute `cfg(test)` or `cfg(all(test, …))`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let tokens = tokens(code);
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !(text(at) == "#" && text(at + 1) == "[" && text(at + 2) == "cfg") {
            at += 1;
            continue;
        }
        let mut behind = close(&tokens, at + 1);
        let names_test =
            text(at + 4) == "test" || (text(at + 4) == "all" && text(at + 6) == "test");
        if !names_test {
            at = behind;
            continue;
        }
        while text(behind) == "#" {
            behind = close(&tokens, behind + 1);
        }
        let end = item_end(&tokens, behind);
        let until = tokens.get(end).map_or(code.len(), |next| next.at);
        found.push(tokens[at].at..until);
        at = end;
    }
    found
}

/// The index behind an item, field or arm that starts at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    const ITEMS: &[&str] = &[
        "pub",
        "mod",
        "fn",
        "impl",
        "struct",
        "enum",
        "trait",
        "use",
        "const",
        "static",
        "async",
        "type",
        "unsafe",
        "extern",
        "macro_rules",
        "let",
    ];
    // Commas end fields and arms; in an item they may stand between generic parameters.
    let is_item = tokens
        .get(at)
        .is_some_and(|first| ITEMS.contains(&first.text));
    while let Some(token) = tokens.get(at) {
        match token.text {
            "{" => return close(tokens, at),
            ";" => return at + 1,
            "}" => return at,
            "," if !is_item => return at + 1,
            "(" | "[" => at = close(tokens, at),
            _ => at += 1,
        }
    }
    tokens.len()
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Blanked spans start and end at whole characters, so nothing is ever replaced here.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
