//! Owns a cache, a client and controllers: declares them without I/O, starts and stops them in order.
//!
//! ```no_run
//! use k8s_openapi::api::apps::v1::Deployment;
//! use steersman_api::ClientConfig;
//! use steersman_controller::{Controller, Reconciler};
//! use steersman_manager::{Manager, shutdown_signal};
//!
//! async fn run(scaler: impl Reconciler) -> Result<(), Box<dyn std::error::Error>> {
//!     let manager = Manager::builder(ClientConfig::infer().await?).build()?;
//!     manager.add_controller(Controller::builder::<Deployment>().build(scaler)?)?;
//!     manager.start(shutdown_signal()).await?;
//!     Ok(())
//! }
//! ```
//!
//! A [`Manager`] is declared first: the options of the cache, the controllers, and other runnables. This needs no
//! cluster. [`Manager::start`] then starts the runnables group by group, supervises them, and stops them in another
//! order (MGR-1):
//!
//! | | group | starts after | reason |
//! |--:|---|---|---|
//! | 1 | HTTP servers | - | metrics and health can be read from the start |
//! | 2 | webhooks | 1 | listing a kind may need this process's own conversion webhook |
//! | 3 | caches | 2 | ready when each declared kind has synced, or its first list has failed |
//! | 4 | others | 3 | they may read from the cache |
//! | 5 | leader-elected | 4, and the lease if there is a leader election | controllers, which write |
//!
//! A group is ready when all its runnables have started, and those that promised to report their readiness have done
//! so; the log names the runnables that the manager waits for (MGR-4).
//!
//! The groups stop in the order others, leader-elected, caches, webhooks, HTTP servers: readers stop before the caches
//! that they read, and servers stay up until the end. The whole stop has a grace period (30 s), of which reconciles
//! leave a part for the groups that stop after them. Runnables that still run at its end are dropped and named in the
//! error. The remaining groups are then asked to stop, in order, and have two seconds (MGR-3). A second signal drops
//! every runnable. The lease of a leader is released after all groups have stopped (LEASE-8). Last of all, the waiting
//! Kubernetes Events are sent, for two seconds at most (EVENT-8).
//!
//! Besides a request to stop, a manager ends because of:
//!
//! - An error or a panic of a runnable or of a task of the framework (MGR-2). The error names the runnable, and all
//!   other runnables are stopped in order, with their grace (MGR-5).
//! - A controller with [`require_sync`](steersman_controller::ControllerBuilder::require_sync), if one of its
//!   kinds does not sync in that time.
//!
//! - The loss of the lease, if the manager has [leader election](ManagerBuilder::leader_election) (LEASE-1).
//!
//! A manager does not end because of a kind that is missing or forbidden, for which its controllers wait with a log
//! line each minute (CTRL-7), nor because of a panic of a reconciler, predicate, handler or hook (CTRL-2, CTRL-6,
//! MGR-7). [`Manager::health`] names such problems (MGR-6).
//!
//! # Reading order
//!
//! - [`order`] has [`Group`] and the two orders.
//! - [`error`] has [`Error`], and [`options`] has the default grace period.
//! - [`health`] has [`Health`].
//! - `liveness` decides whether the process makes progress.
//! - [`diagnostics`] has [`Diagnostics`], sections of JSON that parts of a program add.
//! - `monitor` reads the health from caches and controllers.
//! - [`runnable`] has [`Runnable`].
//! - [`shutdown`] has [`shutdown_signal`] and [`Shutdown`].
//! - `reminders` decides when the log names runnables that are not ready, `readiness` waits for them, and `tasks` has
//!   the tasks of runnables.
//! - `supervision` decides which group starts or stops next, by the tables of `order`, and `supervisor` carries that
//!   out; `supervisor::campaign` is the manager's part in a leader election.
//! - [`http_options`] has the options of the servers of health probes and metrics.
//! - `probes` runs all checks; `probes::built_in_checks` has the manager's own.
//! - `debug_page` has the routes of the debug page: `debug_page::gather` reads the views, `debug_page::attention` decides what
//!   keeps the operator from its work, and `debug_page::pages` has the pages.
//! - `http_server` has the runnables of the servers; `http_server::process_metrics` reads the metrics of the process on Linux.
//! - `client_certificate_check` looks at the client certificate of a cluster.
//! - [`cluster`] has [`Cluster`]: client config, cache and client of one API server. `clusters` runs the clusters that
//!   are added to a manager, and collects their metrics.
//! - [`manager`] has [`Manager`], the handle, and [`builder`] has [`ManagerBuilder`].

pub mod order;
pub mod error;
pub mod options;
pub mod health;
mod liveness;
pub mod diagnostics;
mod monitor;
pub mod runnable;
pub mod shutdown;
mod reminders;
mod readiness;
mod tasks;
mod supervision;
mod supervisor;
pub mod http_options;
mod probes;
mod debug_page;
mod http_server;
mod client_certificate_check;
pub mod cluster;
mod clusters;
mod shard_membership;
pub mod manager;
pub mod builder;

pub use builder::ManagerBuilder;
pub use cluster::Cluster;
pub use diagnostics::Diagnostics;
pub use error::{BoxError, Error};
pub use health::{Check, ControllerHealth, Health, InformerHealth};
pub use http_options::{HealthServer, MetricsServer};
pub use manager::Manager;
pub use order::Group;
pub use runnable::{RunContext, Runnable};
pub use shutdown::{Shutdown, shutdown_signal};
