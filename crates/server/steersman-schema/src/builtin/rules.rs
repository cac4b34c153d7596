//! Machine: the table of rules, one row per built-in kind and group version (SRV-KIND-1).

use super::super::resource::{
    FieldRefusal, MetadataCheck, MetadataChecks, SelectableField, StatusMetadata,
};
use super::{Row, lines_by_version};

/// The table of rules; its header describes the columns.
const TABLE: &str = include_str!("rules.txt");

const CELLS: usize = 12;

/// One row of the table.
#[derive(Debug)]
pub struct DefaultRule {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// The kind, for instance `Deployment`.
    pub kind: &'static str,
    /// The cells of the row.
    pub cells: [&'static str; CELLS],
}

/// Returns the rows. Lines with a wrong number of cells are skipped; a test counts the rows.
pub fn rules() -> Vec<DefaultRule> {
    let lines = lines_by_version(TABLE).filter(|(_, line)| !line.starts_with('#'));
    let rules = lines.filter_map(|((group, version), line)| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let cells: [&str; CELLS] = cells.try_into().ok()?;
        Some(DefaultRule {
            group,
            version,
            kind: cells[0],
            cells,
        })
    });
    rules.collect()
}

impl DefaultRule {
    pub(super) fn is_of(&self, row: &Row) -> bool {
        (self.group, self.version, self.kind) == (row.group, row.version, row.kind)
    }

    /// Returns the message format for an unknown field label.
    pub(super) fn refusal(&self) -> FieldRefusal {
        match self.cells[2] {
            "plain" => FieldRefusal::NotSupported,
            "kind" => FieldRefusal::NotSupportedForKind,
            "version" => FieldRefusal::NotSupportedForVersion,
            _ => FieldRefusal::OnlyMetadata,
        }
    }

    /// Returns how a write to the status treats the metadata.
    pub(super) fn status_metadata(&self) -> StatusMetadata {
        match self.cells[3] {
            "keeps" => StatusMetadata::Kept,
            "keeps-but-owns" => StatusMetadata::KeptButOwned,
            "keeps-labels" => StatusMetadata::LabelsKept,
            "keeps-owners" => StatusMetadata::OwnersKept,
            _ => StatusMetadata::Taken,
        }
    }

    /// Returns the metadata checks of updates of the object and of its status.
    pub(super) fn metadata_checks(&self) -> MetadataChecks {
        let (main, status) = self.cells[4].split_once('/').unwrap_or_default();
        let parse = |letters: &str| {
            let checks = letters.chars().filter_map(|letter| match letter {
                'N' => Some(MetadataCheck::New),
                'U' => Some(MetadataCheck::Update),
                _ => None,
            });
            checks.collect()
        };
        MetadataChecks {
            main: parse(main),
            status: parse(status),
        }
    }

    /// Returns the supported field labels, except those of the metadata.
    pub(super) fn fields(&self) -> Vec<SelectableField> {
        let labels = self.cells[1].split(',').filter(|label| *label != "-");
        let fields = labels.map(|entry| {
            let (label, default) = entry.split_once('=').unwrap_or((entry, ""));
            SelectableField {
                label: label.to_owned(),
                path: path_of(label),
                default,
            }
        });
        fields.collect()
    }
}

/// Returns the path of a field label's value in the stored object.
fn path_of(label: &str) -> Vec<String> {
    let path = match label {
        "source" => "source.component",
        // Old clients send this label.
        "spec.host" => "spec.nodeName",
        // The label is accepted, but no Pod has a value for it.
        "status.podIPs" => "status.podIPs.none",
        "status.successful" => "status.succeeded",
        // Events of both groups are stored in the form of the core group.
        "reportingController" => "reportingComponent",
        other => other,
    };
    let path = path.replace("regarding.", "involvedObject.");
    path.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
