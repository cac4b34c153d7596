//! From events to reconciles.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, predicate};
//!
//! struct Rollouts;
//!
//! impl Reconciler for Rollouts {
//!     async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
//!         let Some(deployment) = ctx.client().get_opt::<Deployment>(&request.key).await? else {
//!             return Ok(Action::done());
//!         };
//!         println!("{} has the spec {:?}", request.key, deployment.spec);
//!         Ok(Action::done())
//!     }
//! }
//!
//! let controller = Controller::builder::<Deployment>()
//!     .with_predicates(predicate::generation_changed())
//!     .owns::<ConfigMap>()
//!     .max_concurrent_reconciles(4)
//!     .build(Rollouts)?;
//! assert_eq!(controller.name(), "deployment");
//! # Ok::<_, steersman_controller::ControllerError>(())
//! ```
//!
//! A [`Controller`] watches kinds of a shared cache. Each watch has a [`predicate`] of its own and a
//! [`handler`] that turns the events that pass into requests. The requests of all watches meet in one
//! work queue, where equal requests are one, and workers hand them to the [`Reconciler`].
//!
//! # The life of one request
//!
//! 1. `source` subscribes to a kind of the cache.
//! 2. `pump` takes an event from the subscription, and `watch` routes it: the predicate decides whether
//!    the event counts, and the handler names the requests that it causes.
//! 3. The queue holds each request once, requests of initial lists and resyncs behind those of live events.
//! 4. `worker` takes the request's ticket, so that no other worker can, and calls the reconciler with
//!    a [`Context`]. It catches panics and keeps the deadline.
//! 5. `outcome` decides from the result how the ticket ends: with nothing, with a run at a given time,
//!    or with a retry with backoff.
//!
//! # What it promises
//!
//! - **CTRL-1** Workers start only after every watch has handed its initial set to the queue.
//! - **CTRL-2** A panicking reconciler costs its own request only.
//! - **CTRL-4** If a controller is declared to be the only writer of its kind's status, an update of
//!   nothing but an object's status does not cut short the backoff of the object. Otherwise it does,
//!   because the update may come from another writer.
//! - **CTRL-5** Initial lists and resyncs are of low priority, deletes never are.
//! - **CTRL-6** A panic in a predicate, handler or filter, and an error of a handler that waits, costs its
//!   event: it is logged, counted and shown by the [`ControllerStatus`].
//! - **CTRL-7** A controller waits for kinds that are missing or forbidden without a limit, logs what it
//!   waits for, and starts by itself once they are there; with
//!   [`require_sync`](ControllerBuilder::require_sync) it ends after a time limit.
//! - **CTRL-8** A panic in a rate limiter costs one delay. A panic in a worker outside the reconciler
//!   (the clock, the formatting of a key) costs its own request.
//! - **CTRL-9** A controller that stops waits for the writes of its own clients and no others.
//! - **CTRL-20** The reason of a run names the changes that requested it.
//! - **CTRL-21** With a limit of retries, a request is given up after the last one fails, and the next event
//!   begins with new retries.
//! - **CTRL-22** With an interval, the request of an object that exists runs again within the interval.
//! - **CTRL-23** The hook for errors runs after each failed reconcile, and its own failures cost nothing else.
//! - **CTRL-24** A request that triggers itself is counted and warned of, and no other request is.
//! - **CTRL-25** A reconcile that takes too long is shown by a metric and named by one warning.
//! - **CTRL-12** A cluster that is unreachable, forbidden or removed delays no request for another cluster.
//! - **CTRL-31** The reads of owned objects know the owner by its uid.
//! - **CTRL-32** No request for a paused object reaches the reconciler, and the end of a pause requests the object.
//! - **CTRL-33** A reported error with another text each time is retried with backoff.
//! - **CTRL-34** Several clean-ups run in order, and none runs again after its finalizer was removed.
//!
//! The queue's own promises are in [`steersman_workqueue`].
//!
//! # Reading order
//!
//! - `request`, `error`, `clock` and `action`: the vocabulary of a reconcile.
//! - `clusters` is the set of clusters besides that of the manager.
//! - `outcome` decides how the result of a reconcile ends its ticket.
//! - `status` shows what a controller waits for and which handlers panicked; `metrics` has its metrics.
//! - `guarded` protects the queue from panics of a rate limiter.
//! - `limit` shares permits for reconciles among controllers, in the turns that `limit::turns` decides.
//! - `options` has the options of the queue and of the workers.
//! - `context` has [`Context`]: `context::reason` is why a reconcile runs, from the table in `context::changes`, and
//!   `context::loops` detects requests that trigger themselves.
//! - [`predicate`], [`reconcile`] and [`handler`] have the traits that authors of operators implement, and what is made
//!   of functions.
//! - `watch` routes the events of one kind. `watch::optional` watches a kind whenever the server serves it,
//!   `watch::added` is a set of such watches that changes at run time, `watch::in_clusters` watches a kind in each
//!   cluster of a set, and `watch::followed_namespaces` records the namespaces of the cache that a watch or poll
//!   follows (CTRL-42).
//! - [`source`] has the sources of requests: `source::channel` is a channel of objects, and `source::poll` polls
//!   something outside the cluster when `source::poll::schedule` says so.
//! - `pump` is the wiring file of one watch: subscription, predicate, handler, queue.
//! - `worker` takes tickets and runs the reconciler; `worker::recent_reconciles` has the last reconciles.
//! - `lifecycle` decides when workers start and what ends a controller; `start` has what a controller is started with,
//!   and `running` carries the decisions out.
//! - `controller` has [`Controller`], and `builder` [`ControllerBuilder`], which declares it.

mod request;
mod error;
mod clock;
mod clusters;
mod action;
mod outcome;
mod status;
mod metrics;
mod guarded;
mod limit;
mod options;
mod context;
pub mod predicate;
pub mod reconcile;
pub mod handler;
mod watch;
pub mod source;
mod pump;
mod worker;
mod lifecycle;
mod start;
mod running;
mod controller;
mod builder;

pub use action::Action;
pub use builder::ControllerBuilder;
pub use builder::watches::WatchSource;
pub use clusters::{ClusterMember, Clusters};
pub use context::Context;
pub use context::reason::{ChangedObject, ObjectChange, RunReason};
pub use controller::Controller;
pub use controller::declaration::{ControllerDeclaration, NeededRule};
pub use error::{ControllerError, Error};
pub use limit::ReconcileLimit;
pub use options::{Clock, ControllerDefaults, ControllerSettings};
pub use reconcile::{CleanUp, Finalized, Finalizers, Reconciler, pause};
pub use request::{ClusterName, ClusterRequest, Request, RequestKey};
pub use start::StartContext;
pub use status::recent::{RecentReconcile, ReconcileResult};
pub use status::{ControllerStatus, HandlerFailure, WorkProgress};

pub use handler::target::{ControllerTarget, Keyed, Primary, TargetOf};
pub use watch::added::{AddedWatch, WatchSet};
pub use watch::declared::{Watch, WatchedKind, WatchedObjects, WatchedRequests};

pub use steersman_workqueue::{AddOptions, Priority, RateLimiter, limiter};
