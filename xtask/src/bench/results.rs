//! The file of results: what was measured last, that later runs are compared with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figure::Figure;

/// The file's format. It is raised where an older reader would misread a newer file.
const FORMAT: u32 = 1;

/// Everything that was measured, by table.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    format: u32,
    pub(crate) tables: BTreeMap<String, Measured>,
}

/// What one run of one table measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    /// The day, as `2026-11-22`.
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) figures: Vec<Figure>,
    /// What earlier runs measured, a check holds to something, and this one did not measure: it stays
    /// until somebody takes it out of the file, where others see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<Figure>,
}

impl Results {
    /// Nothing yet.
    pub(crate) fn none() -> Self {
        Self {
            format: FORMAT,
            tables: BTreeMap::new(),
        }
    }

    /// What a file holds; nothing where there is none.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        if !path.exists() {
            return Ok(Self::none());
        }
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Self::parse(&text).map_err(|problem| format!("{name} {problem}"))
    }

    /// # Errors
    /// Says why a text is no file of results, to be set behind its name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        /// What every format has.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let broken = |error| format!("is no file of results: {error}");
        let head: Head = serde_json::from_str(text).map_err(broken)?;
        if head.format != FORMAT {
            let format = head.format;
            return Err(format!(
                "has the format {format}, and this program reads {FORMAT}: move it away, and write a new one with --write"
            ));
        }
        serde_json::from_str(text).map_err(broken)
    }

    /// Puts a file in the place of the one that was there, whole: who interrupts this finds either.
    ///
    /// # Errors
    /// Names the file, and why it could not be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = self.text()?;
        let new = path.with_extension("json.new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// As the file holds it.
    ///
    /// # Errors
    /// A figure that is no number cannot be kept.
    pub(crate) fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| format!("the results cannot be kept: {error}"))?;
        Ok(text + "\n")
    }

    /// Takes a run in place of the last one of its table. Bounds only tighten: who accepts less says so
    /// in the file, where others see it.
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
    /// All figures that a later run is compared with.
    pub(crate) fn known(&self) -> Vec<Figure> {
        [self.figures.as_slice(), &self.missing].concat()
    }
}

/// The figures that a measurement printed, a line each.
///
/// # Errors
/// Shows the line that is none.
pub(crate) fn figures(lines: &str) -> Result<Vec<Figure>, String> {
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let figure = serde_json::from_str(line);
            figure
                .map_err(|error| format!("a line of the measurement is no figure: {error}\n{line}"))
        })
        .collect()
}
