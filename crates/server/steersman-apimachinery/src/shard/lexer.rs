//! Machine: splits a CEL expression into tokens by cel-go's grammar.

/// A token and its text as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operator, a bracket, or one of the words `in`, `true`, `false` and `null`.
    Sign(&'static str),
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    /// A name between backquotes.
    Escaped,
    End,
}

impl Kind {
    /// Returns the token's name in error messages.
    pub(super) fn name(self) -> String {
        match self {
            Self::Sign(sign) => format!("'{sign}'"),
            Self::Float => "NUM_FLOAT".to_owned(),
            Self::Int => "NUM_INT".to_owned(),
            Self::Uint => "NUM_UINT".to_owned(),
            Self::String => "STRING".to_owned(),
            Self::Bytes => "BYTES".to_owned(),
            Self::Identifier => "IDENTIFIER".to_owned(),
            Self::Escaped => "ESC_IDENTIFIER".to_owned(),
            Self::End => "<EOF>".to_owned(),
        }
    }
}

/// Signs, longer ones before their own prefixes.
const SIGNS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "=",
];

const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Splits a text into tokens. Also returns the first part that is no token: its text, and the
/// number of tokens before it.
pub(super) fn lex(text: &str) -> (Vec<Token>, Option<(usize, String)>) {
    let mut tokens = Vec::new();
    let mut unknown = None;
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        let Some(first) = rest.chars().next() else {
            break;
        };
        let (kind, length) = match token(rest) {
            Ok(found) => found,
            Err(length) => {
                let length = length.max(first.len_utf8());
                let bad = || (tokens.len(), rest[..length].to_owned());
                unknown.get_or_insert_with(bad);
                rest = &rest[length..];
                continue;
            }
        };
        tokens.push(Token {
            kind,
            text: rest[..length].to_owned(),
        });
        rest = &rest[length..];
    }
    tokens.push(Token {
        kind: Kind::End,
        text: "<EOF>".to_owned(),
    });
    (tokens, unknown)
}

/// Returns the token at the start of a text and its length, or as an error the length of the text
/// that is no token.
fn token(rest: &str) -> Result<(Kind, usize), usize> {
    if let Some(length) = string(rest) {
        let prefix = rest.find(['\'', '"']).unwrap_or_default();
        let bytes = rest[..prefix].contains(['b', 'B']);
        let kind = if bytes { Kind::Bytes } else { Kind::String };
        return length.map(|length| (kind, length));
    }
    let first = rest.chars().next().unwrap_or_default();
    let second = rest.chars().nth(1).unwrap_or_default();
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return Ok(number(rest));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let word = &rest[..end.unwrap_or(rest.len())];
        let known = WORDS.iter().find(|known| **known == word);
        return Ok((
            known.map_or(Kind::Identifier, |word| Kind::Sign(word)),
            word.len(),
        ));
    }
    if first == '`' {
        let end = rest[1..].find('`').ok_or(rest.len())?;
        return Ok((Kind::Escaped, end + 2));
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(&"=") | None => Err(lone(rest)),
        Some(sign) => Ok((Kind::Sign(sign), sign.len())),
    }
}

/// Returns the length that cel-go's lexer skips at an invalid character. After the first half of a
/// two-character sign, the lexer also skips the next character.
fn lone(rest: &str) -> usize {
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    let next = chars.next().map_or(0, char::len_utf8);
    match first {
        '=' | '&' | '|' => first.len_utf8() + next,
        _ => first.len_utf8(),
    }
}

/// Returns a number token and its length.
fn number(rest: &str) -> (Kind, usize) {
    let bytes = rest.as_bytes();
    let digits = |from: usize, hex: bool| {
        let more = bytes[from.min(bytes.len())..].iter();
        let fits = |b: &&u8| {
            if hex {
                b.is_ascii_hexdigit()
            } else {
                b.is_ascii_digit()
            }
        };
        from + more.take_while(fits).count()
    };
    let hex = rest.starts_with("0x") && digits(2, true) > 2;
    let mut end = if hex {
        digits(2, true)
    } else {
        digits(0, false)
    };
    let mut kind = Kind::Int;
    if !hex {
        if bytes.get(end) == Some(&b'.') && digits(end + 1, false) > end + 1 {
            end = digits(end + 1, false);
            kind = Kind::Float;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign, false);
            if exponent > end + 1 + sign {
                end = exponent;
                kind = Kind::Float;
            }
        }
    }
    if kind == Kind::Int && matches!(bytes.get(end), Some(b'u' | b'U')) {
        return (Kind::Uint, end + 1);
    }
    (kind, end)
}

/// Returns the length of a string or bytes literal, the length of an unterminated one as an error,
/// and `None` for any other token.
fn string(rest: &str) -> Option<Result<usize, usize>> {
    let prefix = rest.find(|c: char| !"rRbB".contains(c))?;
    let body = &rest[prefix..];
    let plain = matches!(
        rest[..prefix].to_ascii_lowercase().as_str(),
        "" | "r" | "b" | "br"
    );
    if !plain || !body.starts_with(['\'', '"']) {
        return None;
    }
    let raw = rest[..prefix].contains(['r', 'R']);
    let triple = body.starts_with("\"\"\"") || body.starts_with("'''");
    let quote = if triple { &body[..3] } else { &body[..1] };
    let mut at = prefix + quote.len();
    let mut escaped = false;
    while let Some(c) = rest[at..].chars().next() {
        if !escaped && rest[at..].starts_with(quote) {
            return Some(Ok(at + quote.len()));
        }
        if !triple && matches!(c, '\n' | '\r') {
            return Some(Err(at));
        }
        escaped = !raw && !escaped && c == '\\';
        at += c.len_utf8();
    }
    Some(Err(rest.len()))
}
