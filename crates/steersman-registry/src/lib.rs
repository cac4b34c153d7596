//! What a verb means for a resource, over a store with many versions.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! Invariants:
//!
//! - A verb refuses and changes nothing, or commits before it returns (SRV-REG-1).
//! - A write that names a resource version lands on that version only (SRV-REG-2).
//! - The generation counts changes of the desired state and nothing else (SRV-REG-3).
//! - A write that changes nothing creates no revision (SRV-REG-4).
//! - A watch sees each change once, in order (SRV-WATCH-1).

pub mod store;
pub mod auth;
pub mod webhook;
mod options;
mod rng;
mod metadata;
mod rules;
mod catalogue;
mod select;
mod manager;
mod intake;
mod spoken;
mod faces;
mod memory;
mod due;
mod standing;
mod policy;
mod validation;
mod mutation;
mod compiled;
mod state;
mod follow;
mod scale;
mod managed;
mod admission;
mod attempt;
mod convert;
mod matching;
mod judge;
mod params;
mod change;
mod dispatch;
mod read;
mod limits;
mod usage;
mod quota;
mod security;
mod signing;
mod rights;
mod accounts;
mod classes;
mod service_address;
mod create;
mod definitions;
mod deletion;
mod delete;
mod pods;
mod evict;
mod token;
mod bearer;
mod review;
mod roles;
mod acts;
mod garbage;
mod terminate;
mod lifecycle;
mod patched;
mod update;
mod admit;
mod connect;
mod apply;
mod watch;
mod standard;
mod furnish;
mod snapshot;

pub use metadata::{members as members_of, of as metadata_of, time as time_text};
pub use scale::selector_text;

pub use rng::Rng;

pub use acts::Deed;
pub use attempt::Attempt;
pub use bearer::Known;
pub use intake::{FieldValidation, options as check_options, unknown_fields};
pub use options::{
    DeleteOptions, Deleted, GetOptions, ListOptions, Object, Page, PatchKind, Preconditions,
    Subresource, Target, WatchEvent, WatchOptions, WriteOptions, Written,
};
pub use review::is_review;
pub use snapshot::{Snapshot, SnapshotError};
pub use state::{Registry, RegistryOptions};
pub use watch::WatchCursor;

#[cfg(test)]
mod tests;
