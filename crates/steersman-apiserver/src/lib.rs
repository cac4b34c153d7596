//! An embedded Kubernetes API server, for tests and development.
//!
//! [`ApiServer`] behaves towards its clients like a kube-apiserver 1.36 with a store of its own:
//! discovery, Kubernetes' own kinds and custom resources, list and watch, optimistic locking,
//! finalizers, status and scale. The garbage collector and the namespace controller are played in
//! place; the controllers of workloads, the scheduler and the kubelets are played where that is
//! asked for ([`play`]).
//!
//! - In process it is a [`tower::Service`] ([`ApiServer::service`]): no sockets, and all of its
//!   time is tokio's, so a test with a paused clock lives through hours at once.
//! - Over HTTPS on loopback ([`ApiServer::serve`]) kubectl and any other client reach it, with the
//!   kubeconfig that [`Serving::write_kubeconfig`] writes.
//! - Everybody may do everything, unless it is built with [`Authorization::Rbac`]: then Roles and
//!   bindings decide, for users of [`ApiServer::add_user`] and for ServiceAccounts.
//! - Admission and conversion webhooks are asked about requests: over HTTPS, or in process
//!   ([`ApiServer::route_service_to`]).
//! - What was asked is in the log ([`ApiServer::requests`]), and requests and watches fail on
//!   demand ([`ApiServer::faults`]).
//!
//! ```
//! use serde_json::json;
//! use steersman_apiserver::ApiServer;
//!
//! let server = ApiServer::new();
//! let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
//! server.create(object)?;
//! assert_eq!(server.list("configmaps", "default").len(), 1);
//! # Ok::<(), steersman_apiserver::status::Status>(())
//! ```
//!
//! # What it is not
//!
//! A program that works against this server may still meet in a cluster:
//!
//! - Kinds that are alpha or beta, and now and then a rule of a stable one: what each fills in and
//!   refuses is written after upstream's code, family by family, and measured by recorded answers;
//!   what neither reached may be missing, or worded otherwise.
//! - Bodies in CBOR, and answers in protobuf or CBOR: JSON, YAML and, for Kubernetes' own kinds,
//!   protobuf are taken, JSON and YAML are answered.
//! - OpenID Connect, and webhooks that authenticate or authorize: users show bearer tokens, or
//!   certificates of an authority that the server was told of.
//! - Some plugins of admission, such as the one that adds tolerations. Webhooks, policies that mutate
//!   and that validate, quotas, pod security, priorities, default classes and limits of namespaces are
//!   there; ServiceAccounts are asked for and mounted where they are played.
//! - Logs, exec and port-forward: there are no containers, also where Pods are played. Of the
//!   controllers of a cluster those of [`play`] act, and no others.
//!
//! The guide's page on it, `crates/steersman/guide/api-server.md`, has the same as a table with
//! what one sees in each case.
//!
//! # Invariants of the driver
//!
//! - SRV-1: a request does all of its work or none: nothing waits within a verb. One that has to
//!   ask a webhook stops, having changed nothing, and is run again with the answer (ADM-1, ADM-2).
//! - SRV-2: a watch marks changes as seen before it polls for events, so none is lost between
//!   the poll and the wait.
//! - SRV-3: no bytes that a client sends make the server panic.

pub mod error;
mod bell;
pub mod manifests;
pub mod faults;
mod http;
mod tls;
mod kubeconfig;
mod server;

pub use error::Error;
pub use faults::History;
pub use http::{ApiService, BodyError, ResponseBody};
pub use server::{ApiServer, ApiServerBuilder, Serving};
#[cfg(feature = "player")]
pub use steersman_player as play;
pub use steersman_registry::auth;
pub use steersman_registry::auth::{Authorization, User};
pub use steersman_registry::{Snapshot, SnapshotError};
pub use steersman_text::status;
