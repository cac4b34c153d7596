//! Reads from the cache, writes to the api-server, and says which is which.
//!
//! A [`Client`] reads from memory and writes over the network (`CLIENT-1`). The two meet again only when the
//! api-server's events reach the cache, so a read right after a write may still answer what was there
//! before. Reconcilers live with that: the event of their own write runs them again. Where an answer
//! must be as new as the server, [`Client::live`] asks it.
//!
//! What one does most:
//!
//! - [`Client::get`], [`get_opt`](Client::get_opt), [`list`](Client::list): shared objects from memory.
//! - [`Client::ensure`]: creates an object, or sends the difference to the one that is there. Nothing is
//!   sent when there is none.
//! - [`Client::status`]: the status, by difference too.
//! - [`Client::add_finalizer`], [`Client::remove_finalizer`]: without losing anyone else's.
//! - [`owner::set_controller_reference`]: what the reconciler makes goes with its owner.
//!
//! Changes made through a closure ([`ensure`](Client::ensure), [`modify`](Client::modify), the status,
//! finalizers) start from a cached object. Where the difference writes a list, the server is told which
//! version it was computed from; when that is not the newest, the object is read live and the closure runs
//! again, a bounded number of times (`CLIENT-2`).
//!
//! Modules, words first:
//!
//! - [`error`] has [`Error`].
//! - [`options`] has [`ClientOptions`] and [`Lock`].
//! - `route` is the split between cache and server.
//! - `diff` computes merge patches.
//! - `change` turns a mutated copy into a request, and says when to try again.
//! - [`owner`] sets owner references.
//! - [`finalizer`] adds and removes finalizers, and says whose turn it is.
//! - `ensure` drives changes: read, mutate, send, read again on conflict.
//! - `shared` is what every handle of one client stands on.
//! - [`live`] has the uncached reader.
//! - [`status`] has the handle of the status subresource.
//! - [`client`] has the handle, [`Client`].

pub mod error;
pub mod options;
mod route;
mod diff;
mod change;
pub mod owner;
pub mod finalizer;
mod ensure;
mod shared;
pub mod live;
pub mod status;
pub mod client;

pub use client::Client;
pub use ensure::Ensured;
pub use error::Error;
pub use live::Live;
pub use options::{ClientOptions, Lock};
pub use status::StatusClient;
