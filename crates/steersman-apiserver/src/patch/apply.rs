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

pub(crate) use combine::lay_over;
pub(crate) use conflict::refuse as refuse_conflicts;
pub(crate) use document::parse as parse_configuration;
pub(crate) use entries::{Entries, Manager, Operation};
pub(crate) use owners::{Reach, apply, cap, update, update_field};
pub(crate) use path::PathElement;
pub(crate) use typed::validate;

#[cfg(test)]
mod tests;
