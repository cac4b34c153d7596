//! Words: regular expressions (patterns) in Go's syntax, which is that of RE2.
//!
//! The crate `regex` has another syntax than Go: `\d` matches the digits of all scripts, a bracket in a class opens
//! another class, and `\Q` is unknown. This module reads a pattern as Go's `regexp/syntax` does with its flag `Perl`,
//! reports the first error with Go's message, and writes the same pattern in the syntax of the crate.

mod class;

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// The largest number of times that a repetition may have.
const MOST_TIMES: u32 = 1000;

/// The largest height of the syntax tree of a pattern.
const MOST_HEIGHT: u32 = 1000;

/// The limit of nesting in the tree of `regex`, which has nodes that Go's tree lacks.
const MOST_NESTED: u32 = 8 * MOST_HEIGHT;

/// Maximum size of a compiled pattern, in bytes: enough for a Unicode class that is repeated a thousand times.
pub const MOST_COMPILED: usize = 64 << 20;

/// The estimated number of states above which a pattern may be too large, so that [`mistake`] compiles the pattern.
const MANY_STATES: u64 = 20_000;

/// Returns the first error in a pattern; `None` if [`compile`] accepts it with the limit [`MOST_COMPILED`] (CEL-3).
pub fn mistake(pattern: &str) -> Option<String> {
    match read(pattern) {
        Ok((_, states)) if states > MANY_STATES => compile(pattern, MOST_COMPILED).err(),
        read => read.err(),
    }
}

/// Compiles a pattern in Go's syntax into at most `limit` bytes.
///
/// # Errors
/// Fails with Go's message if the pattern is invalid or too large.
pub fn compile(pattern: &str, limit: usize) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(&translate(pattern)?);
    builder.size_limit(limit).nest_limit(MOST_NESTED);
    builder
        .build()
        .map_err(|_| format!("expression too large: `{pattern}`"))
}

/// Translates a pattern from Go's syntax to the syntax of the crate `regex`.
///
/// # Errors
/// Fails with Go's message for an invalid pattern.
pub fn translate(pattern: &str) -> Result<String, String> {
    read(pattern).map(|(translated, _)| translated)
}

/// Translates a pattern to the syntax of the crate `regex`, and estimates the number of its states.
fn read(pattern: &str) -> Result<(String, u64), String> {
    let mut translation = Translation {
        pattern,
        at: 0,
        out: String::with_capacity(pattern.len()),
        groups: vec![OpenGroup::default()],
        repeated: None,
        flags: String::new(),
    };
    while translation.at < pattern.len() {
        translation.token()?;
    }
    translation.end()
}

fn wrong<T>(what: &str, part: &str) -> Result<T, String> {
    Err(format!("{what}: `{part}`"))
}

struct Translation<'a> {
    pattern: &'a str,
    /// The number of bytes of the pattern that are translated so far.
    at: usize,
    out: String,
    /// The open groups, the innermost last. The first group is the whole pattern.
    groups: Vec<OpenGroup>,
    /// The position of the last repetition in the translation, if it ends at the present position.
    repeated: Option<usize>,
    /// The flags of the last group without content, written after a repetition.
    flags: String,
}

/// An open group, and the measures of its items so far.
#[derive(Default)]
struct OpenGroup {
    captures: bool,
    /// The position of the group's start in the translation.
    start: usize,
    /// The position of the group's last item in the translation.
    item_start: usize,
    /// The largest product of nested repetitions within one item of the group.
    times: u32,
    states: u64,
    /// The last item of the group, which a following repetition repeats.
    item: Option<PatternItem>,
    /// The number of items in the group's last alternative. Consecutive literals are one item.
    items: u32,
    /// The largest height of an item in the group's last alternative.
    height: u32,
    alternatives: u32,
    /// The largest height of an earlier alternative of the group.
    highest: u32,
}

#[derive(Clone, Copy)]
struct PatternItem {
    /// The product of the nested repetitions within the item.
    times: u32,
    states: u64,
    height: u32,
    /// Whether the item is a literal character.
    literal: bool,
}

impl PatternItem {
    const LITERAL: Self = Self {
        times: 1,
        states: 1,
        height: 1,
        literal: true,
    };
    const OTHER: Self = Self {
        literal: false,
        ..Self::LITERAL
    };

    /// Returns a class, with the estimated number of states of its encoding in UTF-8.
    fn class(text: &str) -> Self {
        let states = if text.contains("\\p") || text.contains("\\P") {
            500
        } else if text.contains("[^") || !text.is_ascii() {
            20
        } else {
            1
        };
        Self {
            states,
            ..Self::OTHER
        }
    }
}

impl OpenGroup {
    fn push(&mut self, item: PatternItem) {
        let joins = item.literal && self.item.is_some_and(|last| last.literal);
        self.items += u32::from(!joins);
        self.height = self.height.max(item.height);
        self.times = self.times.max(item.times);
        self.states = self.states.saturating_add(item.states);
        self.item = Some(item);
    }

    fn next_alternative(&mut self) {
        let height = self.height.max(1) + u32::from(self.items > 1);
        self.highest = self.highest.max(height);
        self.alternatives += 1;
        (self.items, self.height, self.item) = (0, 0, None);
    }

    /// Returns the closed group as an item of the surrounding group.
    fn close(mut self) -> PatternItem {
        self.next_alternative();
        let choice = u32::from(self.alternatives > 1);
        PatternItem {
            times: self.times.max(1),
            states: self.states,
            height: self.highest + choice + u32::from(self.captures),
            literal: false,
        }
    }
}

impl<'a> Translation<'a> {
    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn group(&mut self) -> &mut OpenGroup {
        if self.groups.is_empty() {
            self.groups.push(OpenGroup::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    /// Writes an item into the translation, and skips `length` bytes of the pattern.
    fn item(&mut self, item: PatternItem, text: &str, length: usize) -> Result<(), String> {
        self.write_flags();
        let start = self.out.len();
        self.out.push_str(text);
        self.at += length;
        self.group().item_start = start;
        if item.height > MOST_HEIGHT {
            return self.too_deep();
        }
        self.group().push(item);
        Ok(())
    }

    fn too_deep<T>(&self) -> Result<T, String> {
        wrong("expression nests too deeply", self.pattern)
    }

    fn write_flags(&mut self) {
        let flags = std::mem::take(&mut self.flags);
        self.out.push_str(&flags);
    }

    fn token(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let last = self.repeated.take();
        let Some(first) = rest.chars().next() else {
            return Ok(());
        };
        match first {
            '*' | '+' | '?' => self.repeat(last, 1, 1),
            '{' => match count(rest)? {
                Some((length, times)) => self.repeat(last, length, times),
                None => self.literal('{'),
            },
            '(' => self.open(),
            ')' => self.close(),
            '|' => {
                self.write_flags();
                self.out.push('|');
                self.at += 1;
                self.group().next_alternative();
                Ok(())
            }
            '[' => {
                let (text, length) = class::bracketed(rest)?;
                self.item(PatternItem::class(&text), &text, length)
            }
            '.' | '^' | '$' => self.item(PatternItem::OTHER, &rest[..1], 1),
            '\\' => self.escape(),
            other => self.literal(other),
        }
    }

    fn literal(&mut self, c: char) -> Result<(), String> {
        self.item(PatternItem::LITERAL, &literal(c), c.len_utf8())
    }

    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let text = quoted.split("\\E").next().unwrap_or_default();
            self.at += 2;
            for c in text.chars() {
                self.literal(c)?;
            }
            self.at += if text.len() < quoted.len() { 2 } else { 0 };
            return Ok(());
        }
        let assertion = match rest.as_bytes().get(1) {
            Some(b'A') => Some("\\A"),
            Some(b'z') => Some("\\z"),
            // A word boundary in Go is a boundary of ASCII words.
            Some(b'b') => Some("(?-u:\\b)"),
            Some(b'B') => Some("(?-u:\\B)"),
            _ => None,
        };
        if let Some(text) = assertion {
            return self.item(PatternItem::OTHER, text, 2);
        }
        match class::escape(rest)? {
            (class::Escape::Character(c), length) => {
                self.item(PatternItem::LITERAL, &literal(c), length)
            }
            (class::Escape::Class(text), length) => {
                self.item(PatternItem::class(&text), &text, length)
            }
        }
    }

    /// Translates a repetition of `length` bytes that repeats an item up to `times` times. `last` is the position of a
    /// repetition directly before this one.
    fn repeat(&mut self, last: Option<usize>, length: usize, times: u32) -> Result<(), String> {
        let lazy = self.rest()[length..].starts_with('?');
        let end = self.at + length + usize::from(lazy);
        let text = &self.pattern[self.at..end];
        if let Some(begin) = last {
            let both = &self.pattern[begin..end];
            return wrong("invalid nested repetition operator", both);
        }
        let Some(item) = self.group().item else {
            return wrong("missing argument to repetition operator", text);
        };
        let all = times.saturating_mul(item.times);
        if all > MOST_TIMES {
            return wrong("invalid repeat count", text);
        }
        let height = item.height + 1;
        if height > MOST_HEIGHT {
            return self.too_deep();
        }
        let group = self.group();
        let copies = u64::from(times.saturating_sub(1));
        let more = item.states.saturating_mul(copies);
        group.states = group.states.saturating_add(more);
        group.times = group.times.max(all);
        group.height = group.height.max(height);
        group.item = Some(PatternItem {
            states: item.states.saturating_add(more),
            times: all.max(1),
            height,
            literal: false,
        });
        if !self.flags.is_empty() {
            // The pattern has flags between the item and the repetition.
            let start = self.group().item_start;
            self.out.insert_str(start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(text);
        self.repeated = Some(self.at);
        self.at = end;
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        let (length, opening) = opening(self.rest())?;
        self.at += length;
        match opening {
            // Flags do not change the item that a following repetition repeats.
            Opening::Flags(flags) => {
                if !flags.is_empty() {
                    let _ = write!(self.flags, "(?{flags})");
                }
            }
            Opening::Group { captures, flags } => {
                self.write_flags();
                let start = self.out.len();
                let _ = write!(self.out, "(?{flags}:");
                self.groups.push(OpenGroup {
                    captures,
                    start,
                    ..OpenGroup::default()
                });
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let closed = self.groups.pop().filter(|_| !self.groups.is_empty());
        let Some(closed) = closed else {
            return wrong("unexpected )", self.pattern);
        };
        // Flags at the end of a group have no effect, so they are dropped.
        self.flags.clear();
        let start = closed.start;
        self.item(closed.close(), ")", 1)?;
        self.group().item_start = start;
        Ok(())
    }

    fn end(mut self) -> Result<(String, u64), String> {
        if self.groups.len() > 1 {
            return wrong("missing closing )", self.pattern);
        }
        let whole = self.groups.pop().unwrap_or_default().close();
        if whole.height > MOST_HEIGHT {
            return self.too_deep();
        }
        Ok((self.out, whole.states))
    }
}

/// Writes a character as a literal, escaped if it has another meaning.
fn literal(c: char) -> String {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        c.to_string()
    } else {
        format!("\\x{{{:X}}}", u32::from(c))
    }
}

/// Returns the length of a repetition in braces, and its largest number; `None` if the braces are literals.
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
    // A repetition without an upper bound may contain repetitions with a bound.
    let times = if inner.ends_with(',') {
        least.max(1)
    } else {
        most
    };
    Ok(Some((end + 1, times)))
}

/// The meaning of an opening parenthesis with the characters after it.
enum Opening {
    /// Flags for the rest of the surrounding group.
    Flags(String),
    Group {
        captures: bool,
        flags: String,
    },
}

/// Reads the opening of a group. Returns the length of the opening.
fn opening(rest: &str) -> Result<(usize, Opening), String> {
    let capture = Opening::Group {
        captures: true,
        flags: String::new(),
    };
    let Some(inner) = rest.strip_prefix("(?") else {
        return Ok((1, capture));
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
        return Ok((length, capture));
    }
    let (mut on, mut off) = (String::new(), String::new());
    let (mut taken, mut minus, mut flag) = (2, false, false);
    for c in inner.chars() {
        taken += c.len_utf8();
        match c {
            'i' | 'm' | 's' | 'U' => {
                flag = true;
                on.retain(|other| other != c);
                let set = if minus { &mut off } else { &mut on };
                if !set.contains(c) {
                    set.push(c);
                }
            }
            '-' if !minus => (minus, flag) = (true, false),
            ':' | ')' if !minus || flag => {
                let minus = if off.is_empty() { "" } else { "-" };
                let flags = format!("{on}{minus}{off}");
                let opening = if c == ')' {
                    Opening::Flags(flags)
                } else {
                    let captures = false;
                    Opening::Group { captures, flags }
                };
                return Ok((taken, opening));
            }
            _ => break,
        }
    }
    wrong("invalid or unsupported Perl syntax", &rest[..taken])
}

#[cfg(test)]
mod tests;
