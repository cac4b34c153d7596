//! Documents that change an object: JSON patch, merge patch, strategic merge patch and apply, with the owners of fields.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.

mod json_patch;
mod merge;
mod strategic;
pub mod apply;

pub use json_patch::{Inapplicable, apply as apply_json_patch, apply_operations, unknown_members};
pub use merge::apply as apply_merge_patch;
pub use strategic::{apply as apply_strategic_patch, check_restorable, print_as_go};
