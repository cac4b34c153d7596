//! Installs the `CustomResourceDefinition`s of an operator, and migrates their objects.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
//! use steersman_api::ClientConfig;
//! use steersman_crds::{Crds, Error};
//!
//! // `website` is `Website::crd()` of a type with `#[derive(CustomResource)]`.
//! async fn install(client_config: &ClientConfig, website: CustomResourceDefinition) -> Result<(), Error> {
//!     let definitions = Crds::new().with(website);
//!     definitions.install(client_config, Duration::from_secs(30)).await
//! }
//! ```
//!
//! [`Crds`] are installed by the leader of an operator. A definition that accepts less than the one on the
//! server is refused, a definition of a later release is kept, and stored objects are migrated to the version that the
//! definition stores, so that a later release can remove the former versions.
//!
//! # Reading order
//!
//! - [`error`] has [`Error`], [`status`] [`CrdStatus`], and [`metrics`] [`CrdMetrics`].
//! - `number_formats` replaces formats that API servers do not know.
//! - `schema_narrowing` compares two schemas.
//! - `version_difference` compares the versions of one definition ([`check_versions`]).
//! - [`crd`] has [`Crd`].
//! - `normal_form` writes definitions in one notation, and `release_history` remembers which ones were installed.
//! - `progress` reads and writes how far a migration is, so that an interrupted one goes on from there.
//! - `narrowing` compares two definitions.
//! - [`difference`] has [`CrdDifference`], the fields in which the definition on the server differs, and `plan` decides by
//!   them whether a definition is written, kept or refused.
//! - `status_board` has the state of all definitions.
//! - `requests` has the requests about one definition on the server.
//! - `server_migration` lets the server migrate objects; `migration` stores the objects of one definition anew if the
//!   server does not.
//! - `installer` reads, writes and awaits one definition, and lets its objects be migrated.
//! - [`crds`] has [`Crds`], with the loops of the leader and of the other replicas.

pub mod error;
pub mod status;
pub mod metrics;
mod number_formats;
mod schema_narrowing;
mod version_difference;
pub mod crd;
mod normal_form;
mod release_history;
mod progress;
mod narrowing;
pub mod difference;
mod plan;
mod status_board;
mod requests;
mod server_migration;
mod migration;
mod installer;
pub mod crds;

pub use crd::{Crd, INJECT_CA_FROM, stored_kind};
pub use crds::Crds;
pub use difference::CrdDifference;
pub use error::Error;
pub use metrics::CrdMetrics;
pub use status::{CrdPhase, CrdStatus};
pub use version_difference::check_versions;
