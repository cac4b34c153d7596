//! Words: the printed page of one stop: text, code, and tables with aligned columns.

use std::fmt::{self, Display, Write as _};

const INDENT: &str = "    ";
/// The number of characters per line of a quote.
const WIDTH: usize = 88;

#[derive(Debug, Clone)]
#[must_use]
pub(crate) struct Page {
    text: String,
}

/// Rows under a heading.
#[derive(Debug, Clone)]
#[must_use]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

// ===== impl Page =====

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        let line = "─".repeat(title.chars().count());
        Self {
            text: format!("{title}\n{line}\n"),
        }
    }

    /// Adds a paragraph with its line breaks.
    pub(crate) fn say(mut self, paragraph: impl Display) -> Self {
        for line in paragraph.to_string().lines() {
            self.line(line.trim_start());
        }
        self
    }

    /// Adds code or the text of an error, indented and with a margin.
    pub(crate) fn quote(mut self, code: impl Display) -> Self {
        self.line("");
        for line in code.to_string().lines() {
            for line in wrapped(line) {
                self.line(&format!("{INDENT}│ {line}"));
            }
        }
        self.line("");
        self
    }

    pub(crate) fn table(mut self, table: &Table) -> Self {
        self.line("");
        for line in table.to_string().lines() {
            self.line(&format!("{INDENT}{line}"));
        }
        self.line("");
        self
    }

    fn line(&mut self, line: &str) {
        // Two blank lines in a row are merged.
        if !(line.is_empty() && self.text.ends_with("\n\n")) {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.trim_end())
    }
}

/// Breaks a line into parts that fit the page. Lines of code are short enough to keep their indent.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(last) if last.chars().count() + length <= WIDTH => last.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

// ===== impl Table =====

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            head: head.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; numbers are aligned to the right.
    pub(crate) fn row<const N: usize>(mut self, cells: [&dyn Display; N]) -> Self {
        self.rows
            .push(cells.iter().map(ToString::to_string).collect());
        self
    }

    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || "-+".contains(c)))
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in [&self.head].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let all = [&self.head].into_iter().chain(&self.rows);
                let widths = all.filter_map(|row| row.get(column));
                let width = widths.map(|c| c.chars().count()).max().unwrap_or(0);
                if self.is_numeric(column) {
                    write!(line, "{cell:>width$}   ")?;
                } else {
                    write!(line, "{cell:<width$}   ")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_numbers_stand_to_the_right() {
        let table = Table::new(["what", "bytes"])
            .row([&"head", &"5"])
            .row([&"the JSON", &"1200"]);
        assert_eq!(
            table.to_string(),
            "what       bytes\nhead           5\nthe JSON    1200\n"
        );
    }

    #[test]
    fn a_long_quote_is_broken_between_words_and_loses_none() {
        let long = "a word ".repeat(40);
        let lines = wrapped(&long);
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert_eq!(lines.concat(), long);
    }
}
