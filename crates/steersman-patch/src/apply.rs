//! Room: server-side apply and the ownership of fields (`metadata.managedFields`).
//!
//! - APPLY-1: applying a configuration a second time changes nothing.
//! - APPLY-2: a field that its last owner no longer applies is removed; one with another owner
//!   stays.
//! - APPLY-3: an update owns what it changed and nothing else.
//! - APPLY-4: an entry that a write does not touch stays as it was written, and is neither read nor
//!   written anew; what comes out is what reading all of them would give.

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
