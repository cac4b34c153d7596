//! The verbs of the embedded API server: reads, writes and watches of a resource, over a multi-version store.
//!
//! ```
//! use jiff::Timestamp;
//! use serde_json::json;
//! use steersman_registry::{Registry, RegistryOptions, ObjectTarget, WriteOptions};
//!
//! let now = Timestamp::UNIX_EPOCH;
//! let mut registry = Registry::new(RegistryOptions::default(), now);
//! registry.bootstrap(now);
//! let maps = registry.resource("", "v1", "configmaps").expect("the kind is built in");
//!
//! let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
//! let target = ObjectTarget::object(&maps, Some("default"), "a");
//! let written = registry.create(target, body, &WriteOptions::default(), now)?;
//! assert!(written.created);
//! registry.get(target, None)?;
//! # Ok::<(), steersman_apimachinery::status::Status>(())
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! Invariants:
//!
//! - A verb refuses and changes nothing, or commits before it returns (SRV-REG-1).
//! - A write that names a resource version lands on that version only (SRV-REG-2).
//! - The generation counts changes of the desired state and nothing else (SRV-REG-3).
//! - A write that changes nothing creates no revision, unless the object is stored in another version
//!   than the storage version of its CRD (SRV-REG-4).
//! - A watch sees each change once, in order (SRV-WATCH-1).
//!
//! # Reading order
//!
//! - `values` reads texts and lists in JSON values.
//! - [`definition_check`] checks a CRD, and custom resources of it, without a server.
//! - [`webhook`] has admission and conversion webhooks: selection, requests and responses. `steersman-apiserver` sends
//!   the requests.
//! - `policies` compiles the CEL expressions of admission policies and of the match conditions of webhooks.
//! - `requests` reads the parts of a request: its resource, options, selectors, field manager and body.
//! - `state` is the state of the server, [`Registry`]: `state::transaction` has all changes of one turn of the lock, as
//!   text for the write-ahead log, and `state::recovery` replays them.
//! - `objects` has functions on single objects, such as the allocation of the addresses of Services.
//! - `admission` changes or refuses a write by policies and webhooks; `admission::attempt` runs a verb again when the
//!   responses of webhooks have arrived.
//! - `plugins`, `verbs`, `subresources` and `controllers`: each file is one admission plugin, verb, subresource or
//!   controller. `verbs::watch` follows the log of revisions, and returns 410 to a watch that has fallen behind it;
//!   `steersman-store` decides which revisions are forgotten.

mod values;
pub mod definition_check;
pub mod webhook;
mod policies;
mod requests;
mod state;
mod objects;
mod admission;
mod plugins;
mod verbs;
mod subresources;
mod controllers;

pub use requests::metadata::{members as members_of, of as metadata_of, time as time_text};

pub use requests::rng::Rng;

pub use controllers::storage_migrator::{
    MigrationStep, MigratorTime, MigratorWork, StorageMigrator,
};

pub use admission::attempt::Attempt;
pub use requests::intake::{FieldValidation, options as check_options, unknown_fields};
pub use requests::options::{
    DeleteOptions, Deleted, ListQuery, ObjectTarget, PatchKind, Preconditions, StoredPage,
    StoredWrite, Subresource, VersionedObject, WatchEvent, WriteOptions,
};
pub use state::recovery::Recovery;
pub use state::registry::{Registry, RegistryOptions, reachable_address};
pub use state::snapshot::{Snapshot, SnapshotError};
pub use state::transaction::{Transaction, TransactionError};
pub use subresources::bearer::ValidToken;
pub use subresources::review::is_review;
pub use verbs::acts::ActRequest;
pub use verbs::components::is_component_status;
pub use verbs::watch::WatchCursor;

#[cfg(test)]
mod tests;
