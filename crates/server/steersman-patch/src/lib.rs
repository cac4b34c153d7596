//! Documents that change an object: JSON patch, merge patch, strategic merge patch and apply, with the owners of fields.
//!
//! ```
//! use serde_json::json;
//! use steersman_patch::apply_merge_patch;
//!
//! let object = json!({"metadata": {"name": "a"}, "data": {"text": "old", "size": "1"}});
//! let patch = json!({"data": {"text": "new", "size": null}});
//! let patched = apply_merge_patch(&object, Ok(patch))?;
//! assert_eq!(patched["data"], json!({"text": "new"}));
//! # Ok::<(), steersman_apimachinery::status::Status>(())
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! # Reading order
//!
//! - `json_patch` (RFC 6902) and `merge` (RFC 7386) need no types.
//! - `strategic` merges lists by the merge keys of their types.
//! - [`apply`] is server-side apply: `apply::owners` decides the owners of fields and refuses an apply that conflicts,
//!   and `apply::conflict` finds the fields and writes the 409.

mod json_patch;
mod merge;
mod strategic;
pub mod apply;

pub use json_patch::{Inapplicable, apply as apply_json_patch, apply_operations, unknown_members};
pub use merge::apply as apply_merge_patch;
pub use strategic::{apply as apply_strategic_patch, check_restorable};
