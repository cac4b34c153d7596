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
//!
//! # Reading order
//!
//! - [`custom_schema`] is the schema of one version of a custom resource; [`stored_schemas`] are those through which
//!   stored objects are read.
//! - [`resource`] has the facts about one served kind.
//! - [`types`] has the types of built-in kinds and of custom schemas, for patches that merge by type. `cargo xtask
//!   schemas` writes the table of built-in types, `src/types/builtin.txt`, and with `--go DIR` the descriptions that
//!   `types::descriptions` unpacks for OpenAPI, with their notice beside them.
//! - `name_rules` has the rule that names of each built-in kind obey.
//! - [`builtin`] is the table of the built-in kinds, from `src/builtin/kinds.txt`; `builtin::rules` has one row of
//!   rules per kind.
//! - [`subresources`] are those of built-in kinds beside status and scale.

pub mod custom_schema;
pub mod stored_schemas;
pub mod resource;
pub mod types;
mod name_rules;
pub mod builtin;
pub mod subresources;
