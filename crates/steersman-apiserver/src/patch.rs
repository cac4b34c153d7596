//! Room: documents that change an object: JSON patch and merge patch.

mod json;
mod json_patch;
mod merge;

pub use json::parse as parse_json;
pub(crate) use json_patch::apply as apply_json_patch;
pub(crate) use merge::apply as apply_merge_patch;
