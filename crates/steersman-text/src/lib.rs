//! Texts of the Kubernetes API: statuses, Go's JSON and YAML, names, versions, quantities, times and
//! selectors.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.

pub mod go;
pub mod status;
pub mod json;
pub mod yaml;
pub mod order;
pub mod names;
pub mod patterns;
pub mod quantity;
pub mod zones;
pub mod times;
pub mod indexes;
pub mod schedule;
pub mod selector;
pub mod shard;
pub mod versions;
