//! The manifests of an operator, made of what its program says about itself.
//!
//! [`Manifests`] takes the [`Description`](steersman_description::Description) that `PROGRAM describe` prints, the rules of
//! its files as a [`RuleList`], and [`Options`]. It returns [`Files`]: their paths and contents. Nothing is read
//! from or written to a disk.
//!
//! ```
//! use steersman_description::Description;
//! use steersman_manifests::files::OBSERVED;
//! use steersman_manifests::{Manifests, Options, RuleList};
//!
//! # fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let description: Description = serde_json::from_str(r#"{
//!     "name": "website-operator", "version": "1.4.2", "framework": "0.1.0",
//!     "definitions": [], "controllers": [{"name": "website"}], "webhooks": [], "converted": [],
//!     "kinds": [{"group": "apps", "version": "v1", "kind": "Deployment", "plural": "deployments", "namespaced": true}]
//! }"#)?;
//! let rules = RuleList::parse(OBSERVED, "rules:\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: [patch]\n")?;
//! let manifests = Manifests::new(&description, &rules, &Options::default())?;
//! let role = &manifests.rbac()["config/rbac/role.yaml"];
//! assert!(role.contains("verbs: [get, list, watch, patch]"));
//! # Ok(())
//! # }
//! # f().unwrap();
//! ```
//!
//! # Reading order
//!
//! - [`error`] has [`Error`], [`options`] [`Options`], and [`files`] [`Files`].
//! - [`rule_reason`] has [`RuleReason`].
//! - `yaml` writes values as YAML, with their keys in the usual order, and `folder` folders with their kustomizations.
//! - [`rule_set`] merges rules with their reasons, and has [`RuleTarget`] and [`Permission`]; [`rule_list`] has
//!   [`RuleList`], the rules of a file.
//! - `definition` prepares definitions for API servers and finds their kinds.
//! - `operator` has the facts about one operator that the generators share, from its description.
//! - `implied` has the rules that follow from the declarations of an operator. `permissions` decides their scope, and
//!   unites them with those that controllers declare and those of files.
//! - [`role_grant`] has [`RoleGrant`].
//! - `crds` and `rbac` make files of values.
//! - `template` fills in the texts of the folder `templates`, of which `workload` makes the Deployment and the objects
//!   around it.
//! - `dashboard` makes the dashboard for Grafana.
//! - `webhooks` makes the Service and the configurations of webhooks.
//! - `install` puts everything together, and `helm` makes a chart of it.
//! - [`manifests`] has [`Manifests`], the handle.

pub mod error;
pub mod options;
pub mod files;
pub mod rule_reason;
mod yaml;
mod folder;
pub mod rule_set;
pub mod rule_list;
mod definition;
mod operator;
mod implied;
mod permissions;
pub mod role_grant;
mod crds;
mod rbac;
mod template;
mod workload;
mod dashboard;
mod webhooks;
mod install;
mod helm;
pub mod manifests;

pub use error::Error;
pub use files::Files;
pub use manifests::Manifests;
pub use options::Options;
pub use role_grant::RoleGrant;
pub use rule_list::RuleList;
pub use rule_reason::{RuleOrigin, RuleReason};
pub use rule_set::{Permission, RuleTarget};
pub use steersman_object::PolicyRule;
