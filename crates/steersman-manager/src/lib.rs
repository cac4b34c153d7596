//! Owns cache, client and controllers: declares without I/O, starts and stops in order.
//!
//! A [`Manager`] is declared first: what the cache looks at, which controllers there are, what else runs.
//! None of this needs a cluster. [`Manager::start`] then starts everything, group by group, supervises it,
//! and stops it in an order of its own (`MGR-1`):
//!
//! | | group | starts after | why there |
//! |--:|---|---|---|
//! | 1 | HTTP servers | - | one can look at what happens |
//! | 2 | webhooks | 1 | listing a kind may need this process's own conversion webhook |
//! | 3 | caches | 2 | ready when each declared kind has synced, or says why it cannot |
//! | 4 | others | 3 | may read |
//! | 5 | leader-elected | 4 | controllers: they write |
//!
//! A group is ready when all of it has started and those who promised to say when they are ready have said
//! so; the log names those that it waits for (`MGR-4`).
//!
//! They stop as others, leader-elected, caches, webhooks, HTTP servers: whoever reads stops before what is
//! read, and what answers to the outside stays until the end. All of it has a grace period (30 seconds), of
//! which reconciles leave a little for what stops after them. What still runs then is dropped and named in
//! the error; those whose turn had not come are asked now, in order, and have a moment (`MGR-3`). Whoever
//! insists with a second signal drops everything.
//!
//! What ends a manager, besides the request to stop:
//!
//! - An error or a panic of a runnable or of a task of the framework (`MGR-2`). The error names it, and
//!   everything else is stopped in order, with its grace (`MGR-5`).
//! - A controller with [`require_sync`](steersman_controller::ControllerBuilder::require_sync) one of whose kinds does not sync in
//!   that time.
//!
//! What does not end it: a kind that is missing or forbidden, for which its controllers wait and say so each
//! minute (`CTRL-7`), and a panic of a reconciler, predicate, handler or hook (`CTRL-2`, `CTRL-6`, `MGR-7`).
//! [`Manager::health`] names them (`MGR-6`).
//!
//! Modules, words first:
//!
//! - [`order`] has [`Group`] and the two orders.
//! - [`error`] has [`Error`].
//! - [`options`] has what a manager can be told.
//! - [`health`] has [`Health`], which `monitor` reads from caches and controllers.
//! - [`runnable`] has [`Runnable`].
//! - [`shutdown`] has [`shutdown_signal`] and [`Shutdown`].
//! - `supervision` decides what starts and stops next, and `supervisor` carries it out with the tasks of
//!   `tasks`.
//! - [`cluster`] has [`Cluster`]: connection, cache and client of one api-server.
//! - [`manager`] has the handle, [`Manager`].
//! - [`builder`] has [`ManagerBuilder`].

pub mod order;
pub mod error;
pub mod options;
pub mod health;
mod monitor;
pub mod runnable;
pub mod shutdown;
mod reminders;
mod readiness;
mod tasks;
mod supervision;
mod supervisor;
pub mod cluster;
pub mod manager;
pub mod builder;

pub use builder::ManagerBuilder;
pub use cluster::Cluster;
pub use error::{BoxError, Error};
pub use health::{Check, ControllerHealth, Health, InformerHealth};
pub use manager::Manager;
pub use order::Group;
pub use runnable::{RunContext, Runnable};
pub use shutdown::{Shutdown, shutdown_signal};
