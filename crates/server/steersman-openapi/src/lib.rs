//! The documents from which clients learn the served kinds: discovery, OpenAPI v3 and OpenAPI v2.
//!
//! ```
//! use std::sync::Arc;
//!
//! use steersman_openapi::{discovery, v3};
//! use steersman_schema::builtin::built_in;
//!
//! let resources: Vec<_> = built_in().into_iter().map(Arc::new).collect();
//! let apps = discovery::group(&resources, "apps").expect("the group is built in");
//! assert_eq!(apps["preferredVersion"]["version"], "v1");
//! assert!(v3::paths(&resources).any(|path| path == "apis/apps/v1"));
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! Reading order: `discovery.rs` lists groups, versions and resources; `v3.rs` builds the OpenAPI document of one
//! group version, with the operations of `paths.rs`; `groups.rs` describes discovery itself. `v2.rs` converts the
//! documents of v3 to the one of v2, and its `gnostic.rs` encodes that in protobuf.

pub mod discovery;
mod paths;
mod members;
pub mod groups;
mod reduction;
pub mod v3;
pub mod v2;
