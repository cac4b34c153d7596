//! Controllers: from events of watched objects to requests, and from requests to reconciles.
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
//! A [`Controller`] watches kinds of a shared cache. Each watch has a [`predicate`] of its own and a [`handler`] that
//! turns the events that pass into requests. The requests of all watches go into one work queue, in which equal
//! requests become one, and workers pass them to the [`Reconciler`].
//!
//! # The life of one request
//!
//! 1. `source` subscribes to a kind of the cache.
//! 2. `pump` takes an event from the subscription, and `watch` routes it: the predicate decides whether
//!    the event counts, and the handler names the requests that it causes.
//! 3. The queue holds each request once. Requests of initial lists and resyncs wait behind the requests of live events.
//! 4. `worker` takes the request's ticket, so that no other worker can, and calls the reconciler with
//!    a [`Context`]. It catches panics and keeps the deadline.
//! 5. `outcome` decides from the result how the ticket ends: with nothing, with a run at a given time,
//!    or with a retry with backoff.
//!
//! # What it promises
//!
//! - **CTRL-1** Workers start only after the requests of the initial objects of every watch are in the queue; they do
//!   not wait for optional watches and for watches of other clusters.
//! - **CTRL-2** A panic of a reconciler fails only the request that it ran for, which is retried.
//! - **CTRL-4** By default an update of only an object's status runs the object before its backoff ends, because the
//!   update may come from another writer. If a controller is declared to be the only writer of the status of its kind,
//!   such an update does not cut the backoff short.
//! - **CTRL-5** The requests of initial lists and resyncs have low priority; the requests of deletes never have.
//! - **CTRL-6** A panic in a predicate, handler or filter, and an error of an asynchronous handler, loses only the
//!   event that was handled: the failure is logged, counted and shown by the [`ControllerStatus`].
//! - **CTRL-7** A controller waits without a time limit for watched kinds that are missing or forbidden, logs the kinds
//!   that it waits for, and starts by itself once they have synced; with
//!   [`require_sync`](ControllerBuilder::require_sync) the controller ends after a time limit.
//! - **CTRL-8** If a rate limiter panics, the default rate limiter computes that one delay. A panic in a worker outside
//!   the reconciler (the clock, the formatting of a key) fails only the request of the worker.
//! - **CTRL-9** A controller that stops waits until the writes of its own clients are finished, and for no other
//!   writes.
//! - **CTRL-20** The reason of a run ([`RunReason`]) names the changed objects that requested the run.
//! - **CTRL-21** With [`max_retries`](ControllerBuilder::max_retries), a request does not run again after its last
//!   retry has failed, until an event requests it; then all its retries are available again.
//! - **CTRL-22** With [`at_least_every`](ControllerBuilder::at_least_every), the request of an object that exists runs
//!   again within the interval.
//! - **CTRL-23** The hook for errors ([`on_error`](ControllerBuilder::on_error)) runs after each failed reconcile. A
//!   failure of the hook affects neither the retry nor other requests.
//! - **CTRL-24** A request triggers itself if each of its runs writes an object and that write alone causes the next
//!   run. From the tenth such run in a row on, the runs are counted, and a warning names the object.
//! - **CTRL-25** A reconcile that takes longer than twice its deadline and grace, or than ten minutes without a
//!   deadline, is shown by a metric and named by one warning.
//! - **CTRL-12** A cluster that is unreachable, forbidden or removed delays no request for another cluster.
//! - **CTRL-31** Reads of owned objects ([`Context::owned`]) identify the owner by its uid, so they return no objects
//!   of a deleted owner with the same name.
//! - **CTRL-32** No request for a paused object reaches the reconciler, and the end of a pause requests the object.
//! - **CTRL-33** An error that is reported in the status is retried with backoff, even if its text differs each time:
//!   status writes that would change only messages are sent less and less often.
//! - **CTRL-34** The clean-ups of several finalizers run in order, and no clean-up runs again after its finalizer was
//!   removed.
//!
//! The queue's own promises are in [`steersman_workqueue`].
//!
//! # Reading order
//!
//! - `request`, `error` and `action`: the vocabulary of a reconcile.
//! - `clusters` has the set of clusters that controllers watch besides the manager's own cluster.
//! - `outcome` decides how the result of a reconcile ends its ticket.
//! - `journal` has the words of what a controller shows of its queue, its events and its reconciles.
//! - `status` shows what a controller waits for and which handlers panicked; `metrics` has its metrics.
//! - `guarded` protects the queue from panics of a rate limiter.
//! - `limit` shares permits for reconciles among controllers, in the turns that `limit::turns` decides.
//! - `options` has the options of the queue and of the workers.
//! - `context` has [`Context`]: `context::reason` is why a reconcile runs, from the table in `context::changes`, and
//!   `context::loops` detects requests that trigger themselves. `context::event_journal` keeps the last events, and the
//!   steps of running reconciles.
//! - [`predicate`], [`reconcile`] and [`handler`] have the traits that authors of operators implement, and
//!   implementations made of functions.
//! - `watch` routes the events of one kind. `watch::optional` watches a kind whenever the server serves it,
//!   `watch::added` is a set of such watches that changes at run time, `watch::in_clusters` watches a kind in each
//!   cluster of a set, and `watch::followed_namespaces` records the namespaces of the cache that a watch or poll
//!   follows (CTRL-42).
//! - [`source`] has the sources of requests: `source::channel` is a channel of objects, and `source::poll` polls the
//!   state of something outside the cluster at the times that `source::poll::schedule` decides.
//! - `pump` is the wiring file of one watch: subscription, predicate, handler, queue.
//! - `worker` takes tickets and runs the reconciler; `worker::recent_reconciles` has the last reconciles, and
//!   `worker::reconcile_groups` the slowest ones and the failures by message.
//! - `lifecycle` decides when workers start and what ends a controller; `start` has the cache, client and settings that
//!   a controller is started with, and `running` executes the decisions of `lifecycle`.
//! - `controller` has [`Controller`], and `builder` [`ControllerBuilder`], which declares it.

mod request;
mod error;
mod clusters;
mod action;
mod outcome;
mod journal;
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
pub use journal::recent::{RecentReconcile, ReconcileResult};
pub use journal::{
    ErrorGroup, JournalEvent, LoopReport, ReconcileRate, ReconcileStep, SoughtObject, StepAction,
};
pub use limit::ReconcileLimit;
pub use options::{Clock, ControllerDefaults, ControllerSettings};
pub use reconcile::{CleanUp, Finalized, Finalizers, Reconciler, pause};
pub use request::{ClusterName, ClusterRequest, Request, RequestKey};
pub use start::StartContext;
pub use status::{ControllerStatus, HandlerFailure, WorkProgress};

pub use handler::target::{ControllerTarget, Keyed, Primary, TargetOf};
pub use watch::added::{AddedWatch, WatchSet};
pub use watch::declared::{Watch, WatchedKind, WatchedObjects, WatchedRequests};

pub use steersman_workqueue::{
    AddOptions, KeyReport, KeyState, Priority, QueueReport, RateLimiter, limiter,
};
