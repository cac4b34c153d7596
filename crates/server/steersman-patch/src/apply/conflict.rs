//! Machine: finds the fields of other managers that a write would change, and builds the 409 status with their names.

use steersman_apimachinery::go;
use steersman_apimachinery::status::{Cause, Details, Status};

use super::field_set::FieldSet;
use super::managed_fields::{Manager, ManagerEntry, ManagerOperation};

/// The fields of one manager that a configuration would take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the fields.
    pub manager: Manager,
    /// The fields in conflict.
    pub fields: FieldSet,
}

/// Returns the fields in `written` that these managers own, as one conflict per manager.
pub(super) fn find<'a>(
    entries: impl Iterator<Item = (&'a Manager, &'a ManagerEntry)>,
    written: &FieldSet,
) -> Vec<Conflict> {
    let conflicts = entries.map(|(manager, entry)| Conflict {
        manager: manager.clone(),
        fields: entry.fields().intersection(written),
    });
    conflicts
        .filter(|conflict| !conflict.fields.is_empty())
        .collect()
}

/// Builds the 409 status, with one cause per manager and field.
pub fn refuse(conflicts: &[Conflict]) -> Status {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for conflict in conflicts {
        let manager = print(&conflict.manager);
        lines.push(format!("conflicts with {manager}:"));
        for field in conflict.fields.paths() {
            lines.push(format!("- {field}"));
            causes.push(Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field,
            });
        }
    }
    let message = match causes.as_slice() {
        [one] => format!(
            "Apply failed with 1 conflict: {}: {}",
            one.message, one.field
        ),
        several => format!(
            "Apply failed with {} conflicts: {}",
            several.len(),
            lines.join("\n")
        ),
    };
    let details = Details {
        causes,
        ..Details::default()
    };
    Status::failure(409, "Conflict", message).with_details(details)
}

fn print(manager: &Manager) -> String {
    let quoted = go::quote;
    let mut text = quoted(&manager.name);
    if !manager.subresource.is_empty() {
        text = format!("{text} with subresource {}", quoted(&manager.subresource));
    }
    if manager.operation == ManagerOperation::Update {
        text = format!("{text} using {}", manager.version);
    }
    text
}
