//! Requests to a Kubernetes API server, and its answers.
//!
//! This is the only library crate that names `kube-client`. A [`kube_client::Client`] (a boxed tower service) stands
//! for a cluster, or for an API server in this process. Requests go through it as raw bytes, for three reasons: a
//! refusal keeps its status, `Retry-After` and `Status` body in an [`Error`] to branch on; an object that does not
//! decode affects no other object ([`Decoded`]); and no body appears in a log.
//!
//! Modules, words first:
//!
//! - [`asked`] has [`Asked`], which describes a request in errors.
//! - [`error`] has [`Error`], the errors of requests.
//! - [`options`] has the options of requests.
//! - [`head`] has [`RawObject`], the JSON of an object that is not decoded as a type, and its [`Head`].
//! - [`event`] has [`ListPart`], [`ListPage`], [`WatchEvent`] and [`Decoded`].
//! - `about` reads which object an answer is about; `warning` parses the warnings of a server.
//! - `url` builds paths and queries.
//! - `scan` finds the end of a JSON value, `lines` cuts a watch body into lines, and `items` cuts a list body into its
//!   objects.
//! - `raw` inspects the bytes of an object before it is decoded; `decode` decodes it, or only its metadata.
//! - `bodies` turns the bodies of lists and watches into objects and events.
//! - `transport` sends a request and collects its answer within time limits; `pages` joins the pages of a list.
//! - [`request`] has [`Request`], a request that is ready to be sent.
//! - [`list_watch`] has the [`ListWatch`] trait that drives reflectors.
//! - `plugin` explains the problems of credential plugins.
//! - `config` finds and checks a kubeconfig.
//! - [`wire`] has the middleware of a connection.
//! - `link` has the HTTP connections to a server.
//! - [`connection`] has [`Connection`], which makes clients.
//! - [`api`] has [`Api`], the typed verbs.
//! - [`discovery`] has [`Mapper`], which finds the kinds that a server serves.

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
