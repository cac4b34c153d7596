//! What a Kubernetes object *is*, as plain values: no tasks, no clock, no network.
//!
//! Every other crate speaks in these words. A kind is a runtime value ([`Kind`]), so typed, dynamic
//! and metadata-only objects go through the same code; an object is addressed by one key type
//! ([`ObjectKey`]) whether its kind is namespaced or not; and [`ResourceVersion`] is the only
//! place that says when two versions may be ordered.
//!
//! Modules, words first:
//!
//! - [`kind`] has [`Gvk`], [`Gvr`], [`Scope`], [`Kind`].
//! - [`key`] has [`ObjectKey`].
//! - [`version`] has [`ResourceVersion`], [`uid`] has [`Uid`].
//! - [`object`] has the [`Object`] trait and [`TypedObject`].
//! - [`whole`] has [`WholeObject`]: which types hold all of an object.
//! - [`labels`] has [`Labels`], as caches hold them.
//! - [`selector`] has [`LabelSelector`], parsed from the text kubectl takes.
//! - [`field_selector`] has [`FieldSelector`], written as servers take it.
//! - [`selection`] has [`Selection`]: which objects a list selects.
//! - [`owner`] finds and builds owner references.
//! - [`report()`] puts an error and its causes on one line, [`panic_text`] reads the text of a panic.

pub mod kind;
pub mod key;
pub mod version;
pub mod uid;
pub mod object;
pub mod whole;
pub mod labels;
pub mod selector;
pub mod field_selector;
pub mod selection;
pub mod owner;
mod report;
mod panics;

pub use field_selector::FieldSelector;
pub use key::ObjectKey;
pub use kind::{Gvk, Gvr, Kind, Scope};
pub use labels::Labels;
pub use object::{Object, TypedObject};
pub use panics::{panic_text, task_panic_text};
pub use report::{Report, report};
pub use selection::{CONTROLLER_UID, IndexKey, OWNER_UID, Selection};
pub use selector::{LabelSelector, Required};
pub use uid::Uid;
pub use version::ResourceVersion;
pub use whole::WholeObject;
