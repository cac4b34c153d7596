//! Reads from the cache, writes to the api-server, and says which is which.
//!
//! A [`Client`] reads from memory and writes over the network (`CLIENT-1`). The two meet again only when the
//! api-server's events reach the cache. A reconciler still reads what it wrote: a cached read waits until the
//! cache has seen what the same key wrote before (`RYOW-1`, [`ReadConsistency`]). What others wrote may be on
//! its way. Where an answer must be as new as the server, [`Client::live`] asks it.
//!
//! What one does most:
//!
//! - [`Client::get`], [`get_opt`](Client::get_opt), [`list`](Client::list): shared objects from memory.
//! - [`Client::ensure`]: creates an object, or sends the difference to the one that is there. Nothing is
//!   sent when there is none.
//! - [`Client::apply`], [`apply_part`](Client::apply_part): server-side apply.
//! - [`Client::status`]: the status, by difference too.
//! - [`Client::add_finalizer`], [`Client::remove_finalizer`]: without losing anyone else's.
//! - [`owner::set_controller_reference`]: what the reconciler makes goes with its owner.
//!
//! Changes made through a closure ([`ensure`](Client::ensure), [`modify`](Client::modify), the status,
//! finalizers) start from a cached object. Where the difference writes a list, the server is told which
//! version it was computed from; when that is not the newest, the object is read live and the closure runs
//! again, a bounded number of times (`CLIENT-2`).
//!
//! A write that was sent is finished by a task of its own, and is never repeated where it may have been done
//! (`CLIENT-7`).
//!
//! Modules, words first:
//!
//! - [`mod@write`] has [`Write`] and [`WriteObserver`]: what was written, what became of it, and who hears of it.
//! - `outcome` tells what became of a write from its answer.
//! - [`error`] has [`Error`].
//! - [`consistency`] has [`ReadConsistency`]: whose writes a cached read sees; [`metrics`] what is counted.
//! - [`options`] has [`ClientOptions`] and [`Lock`].
//! - [`kinds`] says how a client learns the kind of an object: from its type, or from a value.
//! - `route` decides whether the cache or the server answers a read; `namespace` fills in the namespace of a client
//!   that has one.
//! - `diff` computes merge patches, `strategic` those that know the keys of lists.
//! - `change` turns a mutated copy into a request, and says when to try again.
//! - `document` makes what an apply sends, and reads its conflicts.
//! - [`mod@extract`] finds the fields that one manager owns.
//! - `status_field` says whether a type has a status.
//! - `unseen_writes` remembers the writes that the cache has not seen yet; `write_tracker` notes them and lets reads
//!   wait for them.
//! - [`owner`] sets owner references.
//! - [`finalizer`] adds and removes finalizers, and says whose turn it is.
//! - `send` sends every request, and repeats it if the server says when.
//! - `ensure` drives changes: read, mutate, send, read again on conflict.
//! - `shared` is what every handle of one client stands on.
//! - [`live`] has the uncached reader.
//! - `cached` reads from the cache, once that has seen what it has to see.
//! - [`status`] has the handles of the status subresource, [`subresource`] that of any.
//! - [`client`] has the handle, [`Client`].

pub mod write;
mod outcome;
pub mod error;
pub mod consistency;
pub mod metrics;
pub mod options;
mod field_manager;
mod route;
pub mod kinds;
mod namespace;
mod diff;
mod strategic;
mod change;
mod status_field;
mod document;
pub mod extract;
mod unseen_writes;
mod write_tracker;
pub mod owner;
pub mod finalizer;
mod send;
mod ensure;
mod shared;
pub mod live;
mod cached;
pub mod status;
pub mod subresource;
pub mod client;

pub use client::{Client, KindClient};
pub use consistency::ReadConsistency;
pub use ensure::Ensured;
pub use error::{Error, FieldConflict};
pub use extract::extract;
pub use field_manager::{InvalidFieldManager, check_field_manager};
pub use kinds::{KindSource, OneKind, TypedKinds};
pub use live::{Live, Page, Pages};
pub use metrics::ClientMetrics;
pub use options::{ClientOptions, Lock};
pub use status::StatusClient;
pub use subresource::Subresource;
pub use write::{Outcome, RequestId, Write, WriteObserver, Written};
