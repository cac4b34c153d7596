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
//! - [`event`] has [`ListPart`], [`ListPage`], [`WatchEvent`] and [`Decoded`].
//! - `about` reads which object an answer is about; `warning` reads what a server warns of.
//! - `url` builds paths and queries.
//! - `scan` finds the end of a JSON value, `lines` cuts a watch body into lines, and `items` cuts a list body into its
//!   objects.
//! - `raw` inspects the bytes of an object before it is decoded; `decode` decodes it, or only its metadata.
//! - `bodies` turns the bodies of lists and watches into objects and events.
//! - `transport` sends a request and collects its answer within time limits; `pages` joins the pages of a list.
//! - [`request`] has [`Request`], one that is ready to be sent.
//! - [`list_watch`] has the [`ListWatch`] trait that reflectors are driven by.
//! - `plugin` says what is wrong with a credential plugin.
//! - `config` finds and checks a kubeconfig.
//! - [`wire`] has what every request of a connection passes.
//! - `link` has the HTTP connections to a server: which of them carries a request, and when they end.
//! - [`connection`] has [`Connection`], a recipe that makes clients.
//! - [`api`] has [`Api`], the typed verbs.
//! - [`discovery`] has [`Mapper`], which kinds the server serves.

pub mod asked;
pub mod error;
pub mod options;
pub mod head;
pub mod event;
mod about;
mod warning;
mod url;
mod scan;
mod raw;
mod lines;
mod items;
mod decode;
mod bodies;
mod transport;
mod pages;
pub mod request;
pub mod list_watch;
mod plugin;
mod config;
pub mod wire;
mod link;
pub mod connection;
pub mod api;
pub mod discovery;

pub use kube_client;

pub use about::About;
pub use api::Api;
pub use asked::Asked;
pub use connection::Connection;
pub use decode::decode_json;
pub use discovery::{Mapper, Served};
pub use error::{Error, Refusal};
pub use event::{Decoded, ListPage, ListPart, Malformed, PageEnd, WatchEvent};
pub use head::{Head, RawObject};
pub use list_watch::{ApiListWatch, ListStream, ListWatch, WatchStream};
pub use options::{
    DeleteOptions, FieldValidation, PageRequest, Paging, Patch, Propagation, VersionMatch,
    WatchOptions, WriteOptions,
};
pub use request::{Answer, Request};
pub use transport::DEFAULT_REQUEST_TIMEOUT;
pub use warning::Warning;
