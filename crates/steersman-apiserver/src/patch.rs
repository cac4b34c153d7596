//! Room: documents that change an object: JSON patch, merge patch and strategic merge.

mod json_patch;
mod merge;
mod strategic;
pub(crate) mod apply;

pub(crate) use json_patch::{apply as apply_json_patch, apply_operations, unknown_members};
pub(crate) use merge::apply as apply_merge_patch;
pub use steersman_text::json::parse as parse_json;
pub(crate) use strategic::{apply as apply_strategic_patch, check_restorable, print_as_go};
