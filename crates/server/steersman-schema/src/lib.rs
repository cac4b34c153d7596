//! Tables of Kubernetes' own kinds and their types, and the checks of values against schemas.
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
mod formats;
pub mod types;
pub mod validate;
pub mod custom;
mod name_rules;
pub mod builtin;
pub mod subresources;
pub mod events;
pub mod autoscaling;
pub mod signing_request;
pub mod key_pair;
pub mod authorities;
