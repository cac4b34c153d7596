//! Room: server-side apply and the ownership of fields (`metadata.managedFields`).
//!
//! - APPLY-1: applying the same configuration a second time changes nothing.
//! - APPLY-2: a field that its last owner no longer applies is removed; a field that another
//!   manager also owns stays.
//! - APPLY-3: an update owns the fields it changed and no others.
//! - APPLY-4: a managedFields entry that a write does not touch keeps its stored text and is
//!   neither parsed nor written anew. The result is the same as parsing and writing all entries.

mod path;
mod set;
mod fields_v1;
mod typed;
mod compare;
mod combine;
mod entries;
mod conflict;
mod owners;
mod document;

pub use combine::lay_over;
pub use conflict::{Conflict, refuse as refuse_conflicts};
pub use document::parse as parse_configuration;
pub use entries::{Entries, Entry, Manager, Operation};
pub use owners::{Reach, apply, cap, update, update_field};
pub use path::{Atom, PathElement};
pub use set::{FieldSet, Node};
pub use typed::validate;

#[cfg(test)]
mod tests;
