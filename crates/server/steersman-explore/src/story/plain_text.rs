//! Machine: cleans, shortens and wraps texts.

use std::time::Duration;

/// The character that stands for a control character.
const REPLACEMENT: char = '\u{fffd}';

/// Returns a text without the escape sequences of terminals, and with replacements for other control characters and
/// for characters that XML forbids. Line breaks stay, and tabs become spaces.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\n' => cleaned.push('\n'),
            '\t' => cleaned.push_str("    "),
            '\r' if rest.peek() == Some(&'\n') => {}
            // A terminal's sequence: `ESC [`, parameters, and one letter; or `ESC ]` up to BEL or `ESC \`.
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                while rest.next_if(|next| matches!(next, ' '..='?')).is_some() {}
                rest.next_if(|next| matches!(next, '@'..='~'));
            }
            '\u{1b}' if rest.peek() == Some(&']') => {
                while rest
                    .next_if(|next| !matches!(next, '\u{7}' | '\u{1b}' | '\n'))
                    .is_some()
                {}
                if rest.next_if_eq(&'\u{1b}').is_some() {
                    rest.next_if_eq(&'\\');
                } else {
                    rest.next_if_eq(&'\u{7}');
                }
            }
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                cleaned.push(REPLACEMENT);
            }
            char => cleaned.push(char),
        }
    }
    cleaned
}

/// Returns a clean text in one line.
pub(crate) fn one_line(text: &str) -> String {
    let words = clean(text);
    let words: Vec<&str> = words.split('\n').map(str::trim).collect();
    words.join(" ").trim().to_owned()
}

/// Returns the start of a text that is longer than a number of characters, with an ellipsis.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{start}…")
}

/// Returns the lines of a text that is broken at spaces. A line has at most `width` characters, with the prefix that
/// the first line and the other lines have. Only words that are too long are broken.
pub(crate) fn wrap(text: &str, first: &str, others: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut length = line.chars().count();
    let mut is_empty = true;
    for word in text.split(' ') {
        let mut word = word.to_owned();
        let mut size = word.chars().count();
        if !is_empty && length + 1 + size > width {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            length = line.chars().count();
            is_empty = true;
        }
        while length + size > width && size > 1 {
            let space = width.saturating_sub(length).max(1);
            let rest: String = word.chars().skip(space).collect();
            line.extend(word.chars().take(space));
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            length = line.chars().count();
            size -= space.min(size);
            word = rest;
        }
        if !is_empty {
            line.push(' ');
            length += 1;
        }
        line.push_str(&word);
        length += size;
        is_empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// Prints a duration in seconds with three digits.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// Prints a number of things, such as `1 world` or `3 worlds`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_terminals_are_removed() {
        let text = "\u{1b}[1;31mERROR\u{1b}[0m a\tb\r\n\u{1b}]0;title\u{7}c\u{0}\u{ffff}";
        assert_eq!(clean(text), "ERROR a    b\nc\u{fffd}\u{fffd}");
        assert_eq!(clean("\u{1b}]8;;http://a\u{1b}\\link\u{1b}["), "link");
        assert_eq!(clean("a\rb\u{85}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(one_line(" a\n  b\n"), "a b");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(
            wrap("one two three", "- ", "  ", 9),
            ["- one two", "  three"]
        );
        assert_eq!(
            wrap("a abcdefghij b", "", "  ", 6),
            ["a", "  abcd", "  efgh", "  ij b"]
        );
        assert_eq!(wrap("", "- ", "  ", 9), ["-"]);
        assert_eq!(wrap("äöü äöü", "", "", 7), ["äöü äöü"]);
        let narrow = wrap("abc", "12345", "12345", 3);
        assert_eq!(narrow, ["12345a", "12345b", "12345c"]);
    }

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüa", 3), "äö…");
    }
}
