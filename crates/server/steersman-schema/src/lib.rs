//! Served kinds, and the types of their objects: tables of Kubernetes' own kinds, and the schemas of custom
//! resources. Checks and conversions of objects are in `steersman-builtins`.
//!
//! ```
//! use steersman_schema::builtin::built_in;
//!
//! let resources = built_in();
//! let deployments = resources.iter().find(|one| one.is("apps", "Deployment")).expect("the kind is built in");
//! assert_eq!(deployments.plural, "deployments");
//! assert_eq!(deployments.api_version(), "apps/v1");
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.

pub mod custom_schema;
pub mod stored_schemas;
pub mod resource;
pub mod types;
mod name_rules;
pub mod builtin;
pub mod subresources;
