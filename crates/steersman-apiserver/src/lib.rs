//! An embedded Kubernetes API server, for tests and development: the machines behind it.

pub mod status;
pub mod schema;
pub mod selector;
pub mod store;
pub mod patch;
pub mod registry;
