//! Views of a Rust file that separate code, comments, literals and tests.
//!
//! All views have the length and the lines of the input, so an offset in one view is valid in all.

use std::ops::Range;

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// Views of a Rust file.
pub(crate) struct Source {
    /// The code; comments and literals are replaced by blanks.
    pub(crate) code: String,
    /// The comments; everything else is replaced by blanks.
    pub(crate) comments: String,
    /// The literals, quotes included; everything else is replaced by blanks.
    pub(crate) literals: String,
    /// The ranges of items under `#[cfg(test)]`, attribute included.
    pub(crate) tests: Vec<Range<usize>>,
}

/// One token of code: an identifier or number, `::`, or a single other character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl Source {
    /// Reads a file. Any text is accepted, valid Rust or not.
    pub(crate) fn of(text: &str) -> Self {
        let pieces = pieces(text);
        let only = |shown| {
            let others = pieces.iter().filter(|(span, _)| *span != shown);
            without(text, others.map(|(_, piece)| *piece))
        };
        let code = only(Span::Code);
        Self {
            tests: test_items(&code),
            comments: only(Span::Comment),
            literals: only(Span::Literal),
            code,
        }
    }

    /// Returns the code without test items.
    pub(crate) fn production(&self) -> String {
        let tests = self.tests.iter().map(|range| &self.code[range.clone()]);
        without(&self.code, tests)
    }

    pub(crate) fn in_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }
}

/// Returns the offset of a part in the text that it is a slice of. (`str::substr_range` is not stable.)
pub(crate) fn offset(text: &str, part: &str) -> usize {
    let (all, at) = (
        text.as_bytes().as_ptr_range(),
        part.as_bytes().as_ptr_range(),
    );
    assert!(
        all.start <= at.start && at.end <= all.end,
        "{part:?} is no slice of the text"
    );
    at.start.addr() - all.start.addr()
}

/// Returns a text in which the given slices of it are replaced by blanks, but for the ends of lines.
pub(crate) fn without<'a>(text: &'a str, parts: impl Iterator<Item = &'a str>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for part in parts {
        let at = offset(text, part);
        for byte in &mut bytes[at..at + part.len()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    // Slices start and end between characters, so the bytes are valid UTF-8 and no character is replaced.
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns the line of an offset, counted from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the tokens of code from which comments and literals were removed.
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
        let text = &code[at..end];
        found.push(Token { text, at });
    }
    found
}

/// Returns the index after the bracket that closes the bracket at `open`, or the number of tokens.
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

/// Returns whether a character can be part of an identifier or number.
pub(crate) fn is_word(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Span {
    Comment,
    Literal,
    Code,
}

/// Cuts a text into its tokens, each with the view that shows it.
fn pieces(text: &str) -> Vec<(Span, &str)> {
    let mut rest = text;
    tokenize(text, FrontmatterAllowed::No)
        .map(|token| {
            let (piece, behind) = rest.split_at(token.len as usize);
            rest = behind;
            (span(token.kind), piece)
        })
        .collect()
}

/// Returns the view that shows a token. Numbers belong to the code.
fn span(kind: TokenKind) -> Span {
    match kind {
        TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => Span::Comment,
        TokenKind::Literal { kind, .. } => match kind {
            LiteralKind::Int { .. } | LiteralKind::Float { .. } => Span::Code,
            _ => Span::Literal,
        },
        _ => Span::Code,
    }
}

/// Finds items under an attribute `cfg(test)` or `cfg(all(test, …))`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let tokens = tokens(code);
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_test = text(at) == "#"
            && text(at + 1) == "["
            && text(at + 2) == "cfg"
            && (text(at + 4) == "test" || (text(at + 4) == "all" && text(at + 6) == "test"));
        if !is_test {
            at += 1;
            continue;
        }
        let mut behind = close(&tokens, at + 1);
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

/// Returns the index after the item, field or match arm that starts at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    const ITEMS: &[&str] = &[
        "pub", "mod", "fn", "impl", "struct", "enum", "trait", "use", "const", "static", "async",
        "type", "unsafe", "extern", "macro_rules", "let",
    ];
    // A comma ends a field or arm; in an item it may separate generic parameters.
    let first = tokens.get(at);
    let is_item = first.is_some_and(|first| ITEMS.contains(&first.text));
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

#[cfg(test)]
mod tests;
