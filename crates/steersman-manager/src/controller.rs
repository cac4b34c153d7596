//! Handle: the controller builder that registers with a manager.

use std::fmt;
use std::time::Duration;

use futures::Stream;
use steersman_controller::handler::EventHandler;
use steersman_controller::predicate::{EventSummary, Predicate};
use steersman_controller::{Builder, Controller, RateLimiter, Reconciler, Request};
use steersman_object::TypedObject;

use crate::error::Error;
use crate::manager::Manager;

/// Declares a controller of the kind `K` and registers it with its manager. Made by
/// [`Manager::controller`].
///
/// Each method is that of [`steersman_controller::Builder`], where it is described in full; [`run`](Self::run)
/// takes the place of `build`.
#[must_use = "a controller is registered by `run`"]
pub struct ControllerBuilder<K: TypedObject> {
    manager: Manager,
    builder: Builder<K>,
}

impl Manager {
    /// Declares a controller whose primary kind is `K`; [`ControllerBuilder::run`] registers it.
    pub fn controller<K: TypedObject>(&self) -> ControllerBuilder<K> {
        ControllerBuilder {
            manager: self.clone(),
            builder: Controller::builder::<K>(),
        }
    }
}

impl<K: TypedObject> ControllerBuilder<K> {
    /// Its name in logs and metrics, and in the field manager of its writes; the kind in lower case by
    /// default.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.map(|builder| builder.name(name))
    }

    /// The field manager of the writes that it makes with the client of its context; by default that of the
    /// manager's [client options](crate::ManagerBuilder::client), and `program/controller` where they name none.
    pub fn field_manager(self, name: impl Into<String>) -> Self {
        self.map(|builder| builder.field_manager(name))
    }

    /// Filters events of the primary kind, and of no other. Several must all let an event pass.
    pub fn for_filter(self, predicate: impl Predicate<K>) -> Self {
        self.map(|builder| builder.for_filter(predicate))
    }

    /// Nobody else writes the status of the primary kind, so that an update of nothing but the status does
    /// not cut a backoff short. Left out, every update does.
    pub fn sole_status_writer(self) -> Self {
        self.map(Builder::sole_status_writer)
    }

    /// Reconciles the controlling owner of each `C` that changes.
    pub fn owns<C: TypedObject>(self) -> Self {
        self.map(Builder::owns::<C>)
    }

    /// As [`owns`](Self::owns), for the events that the predicate lets pass.
    pub fn owns_with<C: TypedObject>(self, predicate: impl Predicate<C>) -> Self {
        self.map(|builder| builder.owns_with::<C>(predicate))
    }

    /// Reconciles what the handler makes of each event of a `W`.
    pub fn watches<W: TypedObject>(self, handler: impl EventHandler<W>) -> Self {
        self.map(|builder| builder.watches::<W>(handler))
    }

    /// As [`watches`](Self::watches), for the events that the predicate lets pass.
    pub fn watches_with<W: TypedObject>(
        self,
        handler: impl EventHandler<W>,
        predicate: impl Predicate<W>,
    ) -> Self {
        self.map(|builder| builder.watches_with::<W>(handler, predicate))
    }

    /// Filters the events of every watch of this controller.
    pub fn filter_all(
        self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.map(|builder| builder.filter_all(filter))
    }

    /// Reconciles what a stream says, besides what the cluster does.
    pub fn requests(self, requests: impl Stream<Item = Request> + Send + 'static) -> Self {
        self.map(|builder| builder.requests(requests))
    }

    /// How many keys are reconciled at once; one by default.
    pub fn max_concurrent_reconciles(self, workers: usize) -> Self {
        self.map(|builder| builder.max_concurrent_reconciles(workers))
    }

    /// How failures are spaced out.
    pub fn rate_limiter(self, rate_limiter: impl RateLimiter<Request>) -> Self {
        self.map(|builder| builder.rate_limiter(rate_limiter))
    }

    /// Ends the manager where a kind of this controller has not had its first sync after `timeout`. Without it
    /// the controller waits as long as a kind is missing or forbidden, and starts by itself after that.
    pub fn require_sync(self, timeout: Duration) -> Self {
        self.map(|builder| builder.require_sync(timeout))
    }

    /// How long one reconcile may take; no limit by default.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.map(|builder| builder.deadline(deadline))
    }

    /// How long a reconcile may go on after its deadline before it is dropped.
    pub fn deadline_grace(self, grace: Duration) -> Self {
        self.map(|builder| builder.deadline_grace(grace))
    }

    /// Registers the controller with the manager, which starts it in its turn. Its kinds are declared in the
    /// cache at once.
    ///
    /// # Errors
    ///
    /// [`Error::Controller`] where it cannot work as declared, [`Error::DuplicateController`],
    /// [`Error::Stopping`].
    pub fn run(self, reconciler: impl Reconciler) -> Result<(), Error> {
        let controller = self.builder.build(reconciler).map_err(Error::Controller)?;
        self.manager.add_controller(controller)
    }

    fn map(self, step: impl FnOnce(Builder<K>) -> Builder<K>) -> Self {
        Self {
            manager: self.manager,
            builder: step(self.builder),
        }
    }
}

impl<K: TypedObject> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.builder, f)
    }
}
