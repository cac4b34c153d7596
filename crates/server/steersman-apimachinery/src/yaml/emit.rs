//! Machine: writes YAML with the quotes, the line breaks and the order of Go's writer.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::plain;
use crate::go::print_double;

/// The column after which a text is broken at its next space.
const WIDTH: usize = 80;
/// The length, in characters, above which a key is written after a question mark.
const LONGEST_KEY: usize = 128;
const STEP: usize = 2;

enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The styles in which a text can be written (`yaml_emitter_analyze_scalar`).
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags, as in the original"
)]
struct Traits {
    plain: bool,
    single: bool,
    block: bool,
    breaks: bool,
}

/// The document that is written so far, and the state of the writer.
#[derive(Default)]
struct Emitter {
    out: String,
    column: usize,
    /// Whether the last written character is white space, so that an indicator needs no space before it.
    white: bool,
    /// Whether the current line has only indentation and indicators so far.
    indention: bool,
}

/// Writes a document as `sigs.k8s.io/yaml` with `go-yaml` 2 does: keys are sorted, with numbers in them compared as
/// numbers; lists are indented as far as their key; texts have quotes only if they would not parse as texts; and long
/// texts are broken after column 80.
pub(super) fn document(value: &Value) -> String {
    let mut emitter = Emitter {
        white: true,
        indention: true,
        ..Emitter::default()
    };
    emitter.node(value, None, false);
    emitter.start_line(0);
    emitter.out
}

impl Emitter {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn indicator(&mut self, text: &str, wants_space: bool, indention: bool) {
        if wants_space && !self.white {
            self.put(' ');
        }
        for c in text.chars() {
            self.put(c);
        }
        self.white = false;
        self.indention &= indention;
    }

    /// Begins a new line, unless the current line is empty.
    fn start_line(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.white) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.white = true;
        self.indention = true;
    }

    /// Writes a value. Its depth is bounded, because it was parsed or built before.
    fn node(&mut self, value: &Value, indent: Option<usize>, of_key: bool) {
        let below = indent.map_or(0, |indent| indent + STEP);
        match value {
            Value::Object(map) if map.is_empty() => self.indicator("{}", true, false),
            Value::Array(list) if list.is_empty() => self.indicator("[]", true, false),
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_by(|one, other| by_nature(one, other));
                for key in keys {
                    self.start_line(below);
                    if key.len() > LONGEST_KEY || key.chars().any(is_break) {
                        self.indicator("?", true, true);
                        self.text(key, below + STEP, false);
                        self.start_line(below);
                        self.indicator(":", true, true);
                    } else {
                        self.text(key, below + STEP, true);
                        self.indicator(":", false, false);
                    }
                    self.node(&map[key], Some(below), true);
                }
            }
            Value::Array(list) => {
                let below = if of_key && !self.indention {
                    indent.unwrap_or_default()
                } else {
                    below
                };
                for item in list {
                    self.start_line(below);
                    self.indicator("-", true, true);
                    self.node(item, Some(below), false);
                }
            }
            Value::String(text) => self.text(text, below, false),
            Value::Null => self.plain("null", below, true),
            Value::Bool(flag) => self.plain(if *flag { "true" } else { "false" }, below, true),
            Value::Number(number) => self.plain(&print_number(number), below, true),
        }
    }

    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        match style(text, is_key) {
            Style::Plain => self.plain(text, indent, !is_key),
            Style::Single => self.single(text, indent, !is_key),
            Style::Double => self.double(text, indent, !is_key),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn plain(&mut self, text: &str, indent: usize, breaks: bool) {
        if !self.white {
            self.put(' ');
        }
        self.folded(text, indent, breaks);
        self.white = false;
        self.indention = false;
    }

    fn single(&mut self, text: &str, indent: usize, breaks: bool) {
        self.indicator("'", true, false);
        self.folded(&text.replace('\'', "''"), indent, breaks);
        self.indicator("'", false, false);
    }

    /// Writes a text without escapes, and breaks it at single spaces.
    fn folded(&mut self, text: &str, indent: usize, breaks: bool) {
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let inner = !first && !matches!(chars.peek(), None | Some(' '));
            if c == ' ' && breaks && !spaces && self.column > WIDTH && inner {
                self.start_line(indent);
            } else {
                self.put(c);
            }
            spaces = c == ' ';
            self.indention &= spaces;
            first = false;
        }
    }

    fn double(&mut self, text: &str, indent: usize, breaks: bool) {
        self.indicator("\"", true, false);
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                for c in escape(c).chars() {
                    self.put(c);
                }
                spaces = false;
            } else if c == ' ' {
                let inner = !first && chars.peek().is_some();
                if breaks && !spaces && self.column > WIDTH && inner {
                    self.start_line(indent);
                    if chars.peek() == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                spaces = true;
            } else {
                self.put(c);
                spaces = false;
            }
            first = false;
        }
        self.indicator("\"", false, false);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false);
        if text.starts_with([' ', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.indicator("2", false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next(), from_end.next()) {
            (Some(last), _) if !is_break(last) => self.indicator("-", false, false),
            (Some(_), before) if before.is_none_or(is_break) => self.indicator("+", false, false),
            _ => {}
        }
        self.put_break('\n');
        self.indention = true;
        self.white = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.start_line(indent);
                }
                self.put(c);
                self.indention = false;
                breaks = false;
            }
        }
    }
}

/// Chooses the style of a text: plain if it parses as that text, literal if it has several lines, and otherwise quoted,
/// with double quotes if a character must be escaped.
fn style(text: &str, is_key: bool) -> Style {
    let traits = traits(text);
    if traits.breaks {
        return if is_key || !traits.block {
            Style::Double
        } else {
            Style::Literal
        };
    }
    if !plain::is_text(text) {
        Style::Double
    } else if traits.plain {
        Style::Plain
    } else if traits.single {
        Style::Single
    } else {
        Style::Double
    }
}

fn traits(text: &str) -> Traits {
    let mut marks = text.starts_with("---") || text.starts_with("...");
    let (mut special, mut breaks, mut lines) = (false, false, false);
    let (mut break_then_space, mut space_then_break) = (false, false);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let blank_follows = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
        marks |= match (before, c) {
            (
                None,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`',
            ) => true,
            (None, '?' | ':' | '-') | (Some(_), ':') => blank_follows,
            (Some(before), '#') => matches!(before, ' ' | '\t' | '\0') || is_break(before),
            _ => false,
        };
        special |= !is_printable(c);
        lines |= c == '\n';
        breaks |= is_break(c);
        break_then_space |= c == ' ' && before.is_some_and(is_break);
        space_then_break |= is_break(c) && before == Some(' ');
        before = Some(c);
    }
    let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
    let ragged = edge(text.chars().next()) || edge(before);
    let hard = space_then_break || special;
    Traits {
        plain: !(marks || ragged || breaks || break_then_space || hard),
        single: !(break_then_space || hard),
        block: !(hard || before == Some(' ')),
        breaks: lines,
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether a character is written unescaped. Tabs are escaped.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            return match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// Prints a number in a JSON document. As Go, prints a number without a fraction as an integer.
fn print_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    if float.fract() == 0.0 && float.abs() < 18_446_744_073_709_551_616.0 {
        return format!("{float}");
    }
    print_double(float)
}

/// Compares two keys as Go's writer does: letters after all other characters, numbers by their value.
fn by_nature(one: &str, other: &str) -> Ordering {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let Some(at) = one.iter().zip(&other).position(|(one, other)| one != other) else {
        return one.len().cmp(&other.len());
    };
    let (a, b) = (one[at], other[at]);
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let number = |chars: &[char]| {
        let digits: Vec<u32> = chars[at..].iter().map_while(|c| c.to_digit(10)).collect();
        let leads = a == '0' || b == '0';
        // A zero within a number is one of its digits, and not a leading zero.
        let mut before = chars[..at].iter().rev().take_while(|c| c.is_ascii_digit());
        let begun = before.any(|c| *c != '0');
        let start = u64::from(leads && begun);
        let value = digits.iter().fold(start, |value, digit| {
            value.wrapping_mul(10).wrapping_add(u64::from(*digit))
        });
        (value.cast_signed(), digits.len())
    };
    number(&one).cmp(&number(&other)).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_where_go_quotes_them() {
        let value = json!({"f:data": {".": {}, "k:{\"name\":\"a\"}": {}, "v:\"x\"": [], "y": "y"},
            "a": "1", "b": "- x", "c": "it's: so", "d": " x", "e": "#x", "f": "x #y", "g": "a\tb",
            "h": "😀", "i": "true", "j": "2026-01-01T00:00:00Z", "k": "1e3", "l": "0x1", "m": "'x'",
            "n": "*", "o": "a: b", "p": "a:b", "q": "k8s.io/x=y", "r": "-x", "s": "x,y", "t": "",
            "u": null, "w": true, "x": "[]", "z": "\u{7f}\u{85}\\"});
        let want = r##"a: "1"
b: '- x'
c: 'it''s: so'
d: ' x'
e: '#x'
f: 'x #y'
f:data:
  .: {}
  k:{"name":"a"}: {}
  v:"x": []
  "y": "y"
g: "a\tb"
h: "\U0001F600"
i: "true"
j: "2026-01-01T00:00:00Z"
k: "1e3"
l: "0x1"
m: '''x'''
"n": '*'
o: 'a: b'
p: a:b
q: k8s.io/x=y
r: -x
s: x,y
t: ""
u: null
w: true
x: '[]'
z: "\x7F\N\\"
"##;
        assert_eq!(document(&value), want);
    }

    #[test]
    fn line_breaks_are_kept_and_long_texts_are_wrapped() {
        let word = "word ".repeat(20);
        let value = json!({"a": "x\ny\n", "b": "x\n\n", "c": "x\n  y", "d": " x\n", "e": "x \ny",
            "f": word.trim_end(), "g": format!("{word}: {word}z"), "h": format!("\t{word}z"),
            "i": [["a\nb"], {"k": "a\n", "l": [1]}, []], "j": "\n"});
        let want = "a: |\n  x\n  y\nb: |+\n  x\n\nc: |-\n  x\n    y\nd: |2\n   x\ne: \"x \\ny\"\n\
            f: word word word word word word word word word word word word word word word word\n  \
            word word word word\n\
            g: 'word word word word word word word word word word word word word word word word\n  \
            word word word word : word word word word word word word word word word word word\n  \
            word word word word word word word word z'\n\
            h: \"\\tword word word word word word word word word word word word word word word word\n  \
            word word word word z\"\n\
            i:\n- - |-\n    a\n    b\n- k: |\n    a\n  l:\n  - 1\n- []\nj: |2+\n\n";
        assert_eq!(document(&value), want);
    }

    #[test]
    fn keys_are_sorted_naturally_and_long_ones_follow_a_question_mark() {
        let long = "k".repeat(129);
        let value = json!({"a10": 1, "a9": 2, "a": 3, "_": 4, "Z": 5, "a-b": 6, "aa": 7, "a01": 8, long.as_str(): {"x": 1}});
        let want =
            format!("_: 4\nZ: 5\na: 3\na-b: 6\na01: 8\na9: 2\na10: 1\naa: 7\n? {long}\n: x: 1\n");
        assert_eq!(document(&value), want);
    }

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        let value = json!([1, -5, 1.5, 1000.0, 1234567.5, 1e21, 1e-7, u64::MAX]);
        let want =
            "- 1\n- -5\n- 1.5\n- 1000\n- 1.2345675e+06\n- 1e+21\n- 1e-07\n- 18446744073709551615\n";
        assert_eq!(document(&value), want);
    }
}
