//! Words: figures, their spread, and the table that shows them.

use std::fmt::Write as _;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The figure, with its unit and spread.
    pub(crate) figure: String,
    /// What was wanted of it; empty where it is only reported.
    pub(crate) wanted: String,
    /// Whether the figure is what was wanted.
    pub(crate) met: bool,
}

/// Median, least and most of several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(figures.len() / 2),
            least: at(0),
            most: at(figures.len().saturating_sub(1)),
        }
    }

    /// For instance `812 MB/s (790 to 830)`.
    pub(crate) fn show(self, unit: &str) -> String {
        let Self {
            median,
            least,
            most,
        } = self;
        let digits = if median < 10.0 { 2 } else { 0 };
        format!("{median:.digits$} {unit} ({least:.digits$} to {most:.digits$})")
    }
}

/// The rows as a table in Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from("| what | figure | wanted | |\n|---|--:|--:|---|\n");
    for row in rows {
        let mark = match (row.wanted.is_empty(), row.met) {
            (true, _) => "",
            (false, true) => "met",
            (false, false) => "missed",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {mark} |",
            row.what, row.figure, row.wanted
        );
    }
    text
}
