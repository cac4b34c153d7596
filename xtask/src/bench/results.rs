//! The file of saved results, which later runs are compared with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::files;

/// The version of the format. It is raised when an older program would misread a newer file.
const FORMAT: u32 = 1;

/// The saved results by table.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    format: u32,
    pub(crate) tables: BTreeMap<String, Measured>,
}

/// The results of one run of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    /// The date, for example `2026-11-22`.
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) figures: Vec<Figure>,
    /// Figures of earlier runs that have a bound or limit and were not measured in this run. They stay
    /// in the file until a reviewed change deletes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<Figure>,
}

impl Results {
    pub(crate) fn none() -> Self {
        Self {
            format: FORMAT,
            tables: BTreeMap::new(),
        }
    }

    /// Reads a file; a missing file gives empty results.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        if !path.exists() {
            return Ok(Self::none());
        }
        let parsed = Self::parse(&files::text(path)?);
        parsed.map_err(|problem| format!("{} {problem}", path.display()))
    }

    /// Parses the content of a file. The caller puts the name of the file in front of the error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        /// The part that all versions of the format have.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let broken = |error| format!("is not a file of results: {error}");
        let head: Head = serde_json::from_str(text).map_err(broken)?;
        if head.format != FORMAT {
            let format = head.format;
            return Err(format!(
                "has the format {format}, but this program reads {FORMAT}: move the file away and write a new one with --write"
            ));
        }
        serde_json::from_str(text).map_err(broken)
    }

    /// Replaces the file atomically: after an interrupt it holds either the old or the new content.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = self.text()?;
        let new = path.with_extension("json.new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| format!("the results cannot be saved: {error}"))?;
        Ok(text + "\n")
    }

    /// Replaces the last run of a table. Bounds and limits only tighten; a reviewed change of the file can loosen them.
    pub(crate) fn take(&mut self, table: &str, mut measured: Measured) {
        let before = self.tables.remove(table);
        let before = before.map(|before| before.known()).unwrap_or_default();
        for figure in &mut measured.figures {
            let known = before.iter().find(|known| known.is_same(figure));
            let bound = known.and_then(|known| known.bound);
            figure.bound = match (bound, figure.bound_from_here()) {
                (Some(before), Some(now)) => Some(now.max(before)),
                (before, now) => before.or(now),
            };
            let limit = known.and_then(Figure::limit);
            figure.limit = figure
                .limit()
                .map(|now| limit.map_or(now, |before| now.or_harder(before)));
        }
        let figures = &measured.figures;
        let is_gone = |known: &Figure| !figures.iter().any(|figure| figure.is_same(known));
        measured.missing = before;
        measured
            .missing
            .retain(|known| known.is_held() && is_gone(known));
        self.tables.insert(table.to_owned(), measured);
    }
}

impl Measured {
    /// Returns all figures that a later run is compared with.
    pub(crate) fn known(&self) -> Vec<Figure> {
        [self.figures.as_slice(), &self.missing].concat()
    }
}

/// Parses the figures that a benchmark printed, one per line.
pub(crate) fn figures(lines: &str) -> Result<Vec<Figure>, String> {
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let read = |line: &str| {
        let wrong = |error| format!("a line of the benchmark is not a figure: {error}\n{line}");
        serde_json::from_str(line).map_err(wrong)
    };
    lines.map(read).collect()
}
