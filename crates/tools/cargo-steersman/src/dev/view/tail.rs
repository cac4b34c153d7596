//! Machine: keeps the last lines of the operator's log and of the build, with the scroll position.

use std::collections::VecDeque;

/// The last lines of the log. Line numbers start at 0.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    lines: VecDeque<String>,
    dropped: usize,
    /// The line number after the last shown line; `None` if the log follows new lines.
    end: Option<usize>,
    pub(crate) build: Vec<String>,
}

/// The number of lines that are kept.
const KEPT: usize = 5000;
/// The number of characters of a line that are kept.
const WIDEST: usize = 1000;

impl LogTail {
    pub(crate) fn push(&mut self, line: &str) {
        self.lines.push_back(plain(line));
        if self.lines.len() > KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }

    /// Adds an output line of a build. Build lines are shown only if the build fails.
    pub(crate) fn push_build(&mut self, line: &str) {
        if self.build.len() < KEPT {
            self.build.push(plain(line));
        }
    }

    /// Returns the lines to show, oldest first.
    pub(crate) fn shown(&self, height: usize) -> impl Iterator<Item = &str> {
        let end = self
            .end
            .map_or(self.total(), |end| end.clamp(self.dropped, self.total()));
        let end = end - self.dropped;
        let begin = end.saturating_sub(height);
        self.lines.range(begin..end).map(|line| &**line)
    }

    /// Returns the number of lines below the last visible line; `None` if the log follows new lines.
    pub(crate) fn below(&self) -> Option<usize> {
        self.end.map(|end| self.total().saturating_sub(end))
    }

    pub(crate) fn pause_or_resume(&mut self) {
        self.end = match self.end {
            Some(_) => None,
            None => Some(self.total()),
        };
    }

    pub(crate) fn resume(&mut self) {
        self.end = None;
    }

    pub(crate) fn scroll_up(&mut self, lines: usize) {
        let end = self.end.unwrap_or(self.total()).saturating_sub(lines);
        // At least one line stays visible.
        self.end = Some(end.max((self.dropped + 1).min(self.total())));
    }

    pub(crate) fn scroll_down(&mut self, lines: usize) {
        if let Some(end) = self.end {
            let end = end.saturating_add(lines);
            self.end = (end < self.total()).then_some(end);
        }
    }

    fn total(&self) -> usize {
        self.dropped + self.lines.len()
    }
}

/// Returns a line without the escape sequences and control characters that would change the terminal.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            // Removes the whole sequence `ESC [ … letter`; of other sequences, only the ESC.
            '\u{1b}' => {
                if chars.as_str().starts_with('[') {
                    let mut rest = chars.by_ref().skip(1);
                    rest.find(|char| ('@'..='~').contains(char));
                }
            }
            '\t' => text.push_str("    "),
            char if char.is_control() => {}
            char => text.push(char),
        }
        if text.len() >= WIDEST {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tail: &LogTail) -> Vec<&str> {
        tail.shown(3).collect()
    }

    #[test]
    fn a_paused_log_stays_where_it_is() {
        let mut tail = LogTail::default();
        assert!(shown(&tail).is_empty());
        tail.scroll_up(1);
        tail.resume();
        for number in 0..10 {
            tail.push(&number.to_string());
        }
        assert_eq!(shown(&tail), ["7", "8", "9"]);
        tail.scroll_up(2);
        tail.push("10");
        assert_eq!(shown(&tail), ["5", "6", "7"]);
        assert_eq!(tail.below(), Some(3));
        tail.scroll_up(usize::MAX);
        assert_eq!(shown(&tail), ["0"]);
        tail.scroll_down(usize::MAX);
        assert_eq!(tail.below(), None);
        tail.pause_or_resume();
        for _ in 0..2 * KEPT {
            tail.push("new");
        }
        assert!(shown(&tail).is_empty());
        assert_eq!(tail.below(), Some(2 * KEPT));
    }

    #[test]
    fn nothing_in_a_line_changes_the_terminal() {
        for (line, expected) in [
            (
                "\u{1b}[2m2026\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m a",
                "2026  INFO a",
            ),
            ("a\rb\u{7}\tc\u{1b}", "ab    c"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(line), expected);
        }
        assert_eq!(plain(&"ä".repeat(9000)).len(), WIDEST);
    }
}
