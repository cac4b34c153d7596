//! Room: server-side apply and the ownership of fields (`metadata.managedFields`).
//!
//! - APPLY-1: applying the same configuration a second time changes nothing.
//! - APPLY-2: a field that its last owner no longer applies is removed; a field that another manager also owns stays.
//! - APPLY-3: an update owns the fields it changed and no others.
//! - APPLY-4: a managedFields entry that a write does not touch keeps its stored text and is neither parsed nor written
//!   anew. The result is the same as after parsing and writing all entries.

mod path_element;
mod field_set;
mod fields_v1;
mod typed_value;
mod changed_fields;
mod merge_values;
mod managed_fields;
mod conflict;
mod owners;
mod last_applied;
mod configuration;

pub use configuration::parse as parse_configuration;
pub use conflict::{Conflict, refuse as refuse_conflicts};
pub use field_set::{FieldNode, FieldSet};
pub use last_applied::{apply_over_client_side, follow as follow_apply};
pub use managed_fields::{Manager, ManagerEntries, ManagerEntry, ManagerOperation};
pub use merge_values::merge_configuration;
pub use owners::{OwnershipContext, cap, update, update_field};
pub use path_element::{Atom, PathElement};
pub use typed_value::check_configuration;

#[cfg(test)]
mod tests;
