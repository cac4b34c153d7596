//! Requests to a Kubernetes API server, and its answers.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use steersman_api::{Api, ClientConfig};
//! use steersman_apiserver::ApiServer;
//! use steersman_object::ObjectKey;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), steersman_api::Error> {
//! let server = ApiServer::new();
//! let connection = ClientConfig::in_process(server.service(), "default");
//! let namespaces = Api::<Namespace>::typed(connection.client()?);
//! let found = namespaces.get(&ObjectKey::cluster_scoped("default")).await?;
//! assert_eq!(found.metadata.name.as_deref(), Some("default"));
//! let missing = namespaces.get(&ObjectKey::cluster_scoped("nowhere")).await.unwrap_err();
//! assert!(missing.is_not_found());
//! # Ok(())
//! # }
//! ```
//!
//! Besides `steersman-transport` this is the only library crate that names `kube-client`. A [`kube_client::Client`] (a
//! boxed tower service) stands for a cluster, or for an API server in this process. Requests go through it as raw
//! bytes, for three reasons: a refusal keeps its status, `Retry-After` and `Status` body in an [`Error`] to branch on;
//! an object that does not decode affects no other object ([`Decoded`]); and no body appears in a log.
//!
//! # Reading order
//!
//! - `clock` reads the present instant and waits for later ones.
//! - [`request_info`] has [`RequestInfo`], which describes a request in errors.
//! - [`error`] has [`Error`], with the predicates that callers branch on.
//! - [`options`] has the options of requests, such as [`Projection`].
//! - `amount` compares quantities, and `owned_fields` reads `managedFields`.
//! - [`field_managers`] has [`FieldManagers`], the managers of a program, and [`apply_digest`] has [`ApplyDigest`],
//!   which recognises their applies.
//! - [`head`] has [`RawObject`], the JSON of an object that is not decoded as a type, and its [`Head`].
//! - [`event`] has [`ListPart`], [`ListPage`], [`WatchEvent`] and [`Decoded`].
//! - `warning` parses the warnings of a server.
//! - [`metrics`] has [`ConnectionMetrics`], the metrics of requests.
//! - [`encoding`] has [`Encoding`]: JSON or protobuf.
//! - `decode` decodes one object, or only its metadata. `decode::bodies` turns the bodies of lists and watches into
//!   objects and events: `decode::items` cuts a list body into its objects, `decode::lines` a watch body into lines,
//!   `decode::scan` finds the end of a JSON value, `decode::raw` inspects the bytes of an object before it is decoded,
//!   `decode::bookmark` reads bookmarks, and `decode::protobuf` turns protobuf into JSON.
//! - `pages` joins the pages of a list.
//! - `problem_log` has [`ProblemLog`], which keeps a lasting problem from filling the log.
//! - [`request`] has [`PreparedRequest`], the request of a verb as a value, which a task of its own can send.
//!   `request::url` builds paths and queries, `request::transport` sends the bytes of all requests and collects their
//!   answers within time limits, and `request::answered_object` reads which object an answer is about.
//! - [`list_watch`] has the [`ListWatch`] trait, the two calls that a reflector needs.
//! - `config` finds and checks a kubeconfig; `config::proxy` chooses the proxy of a server, and
//!   `config::client_certificate` has [`ClientCertificate`], the certificate that names the user of a connection.
//! - [`wire`] has the layers of every request: metrics (`wire::measure`), the encoding (`wire::negotiate`), the layers
//!   of users, the user agent, and warnings.
//! - `network` makes the clients of a server on the network, over the connections of `steersman-transport`.
//! - [`client_config`] has [`ClientConfig`], the settings of a connection, which makes clients.
//! - [`api`] has [`Api`], the typed verbs; `api::requests` makes the request of each writing verb.
//! - [`discovery`] has [`Mapper`], which finds the kinds that a server serves.

#[doc(hidden)]
pub mod clock;
pub mod request_info;
pub mod error;
pub mod options;
mod amount;
mod owned_fields;
pub mod field_managers;
pub mod apply_digest;
pub mod head;
pub mod event;
mod warning;
pub mod metrics;
pub mod encoding;
mod decode;
mod pages;
mod problem_log;
pub mod request;
pub mod list_watch;
mod config;
pub mod wire;
mod network;
pub mod client_config;
pub mod api;
pub mod discovery;

pub use kube_client;

pub use api::Api;
pub use apply_digest::ApplyDigest;
pub use client_config::ClientConfig;
pub use config::ConfigChoice;
pub use config::client_certificate::ClientCertificate;
pub use decode::decode_raw_object;
pub use discovery::{Mapper, ServedResource};
pub use encoding::Encoding;
pub use error::{ApiRefusal, Error};
pub use event::{Decoded, ListPage, ListPart, Malformed, PageEnd, WatchEvent};
pub use field_managers::FieldManagers;
pub use head::{Conformity, Head, RawObject};
pub use list_watch::{ApiListWatch, ListStream, ListWatch, WatchStream};
pub use metrics::ConnectionMetrics;
pub use options::{
    DeleteOptions, FieldValidation, PageRequest, Paging, Patch, Projection, Propagation,
    VersionMatch, WatchOptions, WriteOptions,
};
pub use owned_fields::{ItemKeys, OwnedFields};
pub use problem_log::ProblemLog;
pub use request::answered_object::AnsweredObject;
pub use request::transport::DEFAULT_REQUEST_TIMEOUT;
pub use request::{Answer, PreparedRequest};
pub use request_info::RequestInfo;
pub use steersman_transport::AnyCertificate;
pub use warning::Warning;
