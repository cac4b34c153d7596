//! An embedded Kubernetes API server, for tests and development.
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
//! [`ApiServer`] behaves like a kube-apiserver 1.36 with an in-memory store: discovery, built-in
//! kinds and custom resources, list and watch, optimistic locking, finalizers, status and scale.
//! By default it also acts as the garbage collector and the namespace controller; on demand it acts
//! as the workload controllers, the scheduler and the kubelets ([`play`]).
//!
//! - In process it is a [`tower::Service`] ([`ApiServer::service`]): it uses no sockets and only
//!   tokio's clock, so a test with a paused clock passes through hours at once.
//! - Over HTTPS on loopback ([`ApiServer::serve`]) kubectl and any other client reach it, with the
//!   kubeconfig that [`Serving::write_kubeconfig`] writes.
//! - Every user may do everything, unless the server is built with [`Authorization::Rbac`]: then
//!   Roles and bindings decide, for users of [`ApiServer::add_user`] and for ServiceAccounts.
//! - The server calls admission and conversion webhooks over HTTPS, or in process ([`ApiServer::route_service_to`]).
//! - A log records all requests ([`ApiServer::requests`]), and requests and watches fail on demand
//!   ([`ApiServer::faults`]).
//!
//! # Limits
//!
//! A cluster has these features, which this server lacks:
//!
//! - Alpha and beta kinds, except for StorageVersionMigrations if they are enabled, and some rules of stable kinds.
//!   Defaults and validation follow upstream's code kind by kind and are checked against recorded answers of a
//!   kube-apiserver; a rule that neither covers may be missing or have another message.
//! - CBOR. The server reads and answers JSON, YAML and, for built-in kinds and metadata alone,
//!   protobuf. Discovery documents are JSON or YAML.
//! - OpenID Connect for users, and webhooks for authentication or authorization. Users authenticate
//!   by bearer tokens, or by certificates of a configured authority.
//! - Some admission plugins, such as the one that adds tolerations. Webhooks, mutating and validating policies, quotas,
//!   pod security, priorities, default classes and limit ranges exist; Pods need and mount ServiceAccounts if the
//!   controller of accounts is simulated.
//! - Logs, exec and port-forward, because simulated Pods have no containers. Only the controllers of [`play`] act.
//!
//! The guide's page `crates/framework/steersman/guide/api-server.md` lists the effect of each limit in a table.
//!
//! # Invariants of the driver
//!
//! - SRV-1: a request does all of its work or none, because a verb never waits. A verb that needs a webhook stops
//!   without a change, and is run again with the answer of the webhook (ADM-1, ADM-2). A create that a webhook stopped
//!   continues where it stopped, unless there was another write in the meantime.
//! - SRV-2: a watch marks changes as seen before it polls for events, so it misses no change between poll and wait.
//! - SRV-3: no bytes that a client sends make the server panic.
//!
//! # Reading order
//!
//! - [`error`] has [`Error`]: a server that cannot be set up.
//! - `watch_wakers` wakes the watches of a kind when an object of the kind changes: a few at once, many at intervals.
//! - [`manifests`] reads objects from YAML and JSON files.
//! - [`faults`] has planned failures, and the log of requests.
//! - `tls` has the certificates of the listener and of its clients.
//! - `wal` has the transactions that are not in the write-ahead log yet, and the requests that wait for them.
//! - `revision_origins` has the time and the request of each revision, for the server's page.
//! - `http` turns HTTP requests into calls of verbs and back: `http::service` is the tower service, `http::handlers`
//!   has one file per family of endpoints, `http::documents` discovery, OpenAPI, health, metrics and the issuer of
//!   tokens, and `http::webhooks` sends the requests to webhooks.
//! - `kubeconfig` writes the kubeconfig of a server.
//! - `server` has [`ApiServer`], the handle: a tower service in process, and HTTPS on loopback with HTTP/1.1 and
//!   HTTP/2.
//! - `ui` has the server's page: objects with their history, the log of requests, and faults. Machines make a view of
//!   each page and its HTML; `ui::site` answers requests, and `ui::serving` listens on a thread of its own.
//!
//! The program `steersman-apiserver` is `src/main.rs` and `src/program.rs`: command line, data directory, initial
//! objects. Called `kube-apiserver`, `etcd` or `kubectl` it takes the place of that program; the table of all flags of
//! kube-apiserver is below `program/kube_apiserver`, `program/etcd` keeps the snapshot and the log of one
//! kube-apiserver, and `program/data` keeps the log in files, with the frames of `program/data/frame.rs`. The folder
//! `python` has the Python package with the program: `Server`, faults, the log of requests, and fixtures of pytest.

pub mod error;
mod watch_wakers;
pub mod manifests;
pub mod faults;
mod tls;
mod wal;
mod revision_origins;
mod http;
mod kubeconfig;
mod server;
mod ui;
#[cfg(feature = "explore")]
pub mod explore;

pub use error::Error;
pub use faults::History;
pub use http::{ApiService, BodyError, ResponseBody};
pub use server::{ApiServer, ApiServerBuilder, Serving};
pub use steersman_apimachinery::status;
pub use steersman_auth as auth;
pub use steersman_auth::{Authorization, OptionError, User};
pub use steersman_registry::definition_check;
pub use steersman_registry::{Recovery, Snapshot, SnapshotError, TransactionError};
#[cfg(feature = "simulator")]
pub use steersman_simulator as play;
pub use ui::UiServing;
pub use wal::{WalGroup, WriteAheadLog};
