//! From events to reconciles.
//!
//! A [`Controller`] watches kinds of a shared cache. Each watch has a [`predicate`] of its own and a
//! [`handler`] that turns the events which pass into requests. The requests of all watches meet in one
//! work queue, where equal ones are one, and workers hand them to the [`Reconciler`].
//!
//! # The life of one request
//!
//! 1. `source` subscribes to a kind of the cache.
//! 2. `pump` takes an event from the subscription and asks `watch` what becomes of it: the predicate
//!    says whether it counts, the handler which requests it causes.
//! 3. The queue holds each request once, those of initial lists and resyncs behind the others.
//! 4. `worker` takes the request's ticket, so that no other worker can, and calls the reconciler with
//!    a [`Context`]; a panic is caught, a deadline kept.
//! 5. `outcome` decides from the result what follows, and the ticket does it: nothing, a run at a
//!    given time, or a retry with backoff.
//!
//! # What it promises
//!
//! - **CTRL-1** Workers start only after every watch has handed its initial set to the queue.
//! - **CTRL-2** A panicking reconciler costs its own request only.
//! - **CTRL-4** Where a controller is declared to be the only one who writes its kind's status, an
//!   update of an object's status alone does not cut short the backoff that the object serves;
//!   anywhere else it does, for it may be somebody's news.
//! - **CTRL-5** Initial lists and resyncs are of low priority, deletes never are.
//! - **CTRL-6** A panic in a predicate, handler or filter costs its event, never in silence: it is
//!   logged, counted and shown by the [`ControllerStatus`].
//! - **CTRL-7** A controller waits for kinds that are missing or forbidden as long as that takes, says
//!   so, and starts by itself once they are there; with
//!   [`require_sync`](ControllerBuilder::require_sync) it ends instead.
//! - **CTRL-8** A panic in a rate limiter, or beside the reconciler in a worker (the clock, the
//!   formatting of a key), costs a delay or its own request.
//! - **CTRL-9** A controller that stops waits for the writes of its own client and no others.
//!
//! The queue's own promises are in [`steersman_workqueue`].

mod error;
mod request;
mod action;
mod options;
mod outcome;
mod status;
mod metrics;
mod guarded;
mod context;
pub mod reconcile;
pub mod predicate;
pub mod handler;
mod watch;
mod source;
mod pump;
mod worker;
mod lifecycle;
mod first_sync;
mod tasks;
mod start;
mod running;
mod controller;
mod builder;

pub use action::Action;
pub use builder::{ControllerBuilder, Keyed, Primary, Subject};
pub use context::Context;
pub use controller::Controller;
pub use error::{ControllerError, Error};
pub use options::Clock;
pub use reconcile::Reconciler;
pub use request::{Request, RequestKey};
pub use start::StartContext;
pub use status::{ControllerStatus, HandlerPanic};

pub use steersman_workqueue::{AddOptions, Priority, RateLimiter, limiter};
