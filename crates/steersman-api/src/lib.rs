//! What may be asked of a Kubernetes api-server, and how it answers.
//!
//! This is the only library crate that names `kube-client`; its [`kube_client::Client`] (a boxed
//! tower service) is the seam behind which a cluster, or an api-server in this process, stands.
//! Requests go through it as raw bytes, so that the status, `Retry-After` and the `Status` body of
//! a refusal reach the caller as an [`Error`] to branch on, an object that does not decode stays
//! one object's problem ([`Decoded`]), and no body ever lands in a log.
//!
//! Modules, words first:
//!
//! - [`asked`] has [`Asked`], what a request was about.
//! - [`error`] has [`Error`], the one place where answers become errors.
//! - [`options`] has what a request may ask for.
//! - [`head`] has [`RawObject`], the JSON of an object that nobody has decoded yet, and its [`Head`].
//! - [`event`] has [`ListPage`], [`WatchEvent`] and [`Decoded`].
//! - `url` builds paths and queries; `raw` looks into an object's bytes before they are decoded;
//!   `lines` cuts a watch body into lines; `decode` makes pages and events of them.
//! - `transport` sends a request and collects its answer within bounds of time.
//! - [`list_watch`] has the [`ListWatch`] trait that reflectors are driven by.
//! - `config` finds and checks a kubeconfig.
//! - [`connection`] has [`Connection`], a recipe that makes clients.
//! - [`api`] has [`Api`], the typed verbs.

pub mod asked;
pub mod error;
pub mod options;
pub mod head;
pub mod event;
mod url;
mod raw;
mod lines;
mod decode;
mod transport;
pub mod list_watch;
mod config;
pub mod connection;
pub mod api;

pub use kube_client;

pub use api::Api;
pub use asked::Asked;
pub use connection::Connection;
pub use decode::decode_json;
pub use error::{Error, Refusal};
pub use event::{Decoded, ListPage, Malformed, WatchEvent};
pub use head::{Head, RawObject};
pub use list_watch::{ApiListWatch, ListWatch, WatchStream};
pub use options::{
    DeleteOptions, ListOptions, Patch, PatchOptions, Propagation, VersionMatch, WatchOptions,
    WriteOptions,
};
