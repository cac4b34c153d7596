//! Room: what the rules of many kinds share: paths of fields, defaults, checks and warnings.

pub(crate) mod fill;
pub(crate) mod go_value;
mod trail;
pub(crate) mod field_path;
pub(crate) mod check;
pub(crate) mod selector;
pub(crate) mod node_selector;
pub(crate) mod address;
pub(crate) mod shared_warnings;
pub(crate) mod reference;
pub(crate) mod authorities;

pub(crate) use field_path::{FieldPath, Findings};
