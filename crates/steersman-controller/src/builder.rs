//! Handle: declares a controller - its primary kind, what it owns and watches, how it works.

use std::fmt;
use std::time::Duration;

use futures::stream::Stream;
use steersman_informer::Event;
use steersman_object::{Kind, TypedObject};
use steersman_workqueue::RateLimiter;

use crate::controller::Controller;
use crate::error::ControllerError;
use crate::handler::{EventHandler, Itself, itself, owner};
use crate::keyed::KeyedBuilder;
use crate::predicate::{EventSummary, Everything, Predicate};
use crate::reconcile::Reconciler;
use crate::request::Request;
use crate::watch::Watch;

/// Declares a controller of the kind `K`; no I/O and no task before it is started.
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
/// # use steersman_controller::{handler, predicate};
/// # struct Rollouts;
/// # impl Reconciler for Rollouts {
/// #     async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// let controller = Controller::builder::<Deployment>()
///     .for_filter(predicate::generation_changed())
///     .owns::<ConfigMap>()
///     .max_concurrent_reconciles(4)
///     .build(Rollouts)?;
/// assert_eq!(controller.name(), "deployment");
/// # Ok::<_, steersman_controller::ControllerError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K: TypedObject> {
    primary: Box<dyn Predicate<K>>,
    handler: Itself,
    rest: KeyedBuilder<Request>,
}

impl Controller {
    /// Declares a controller whose requests are objects of the kind `K`.
    pub fn builder<K: TypedObject>() -> Builder<K> {
        Builder {
            primary: Box::new(Everything),
            handler: itself(),
            rest: Self::keyed(Kind::of::<K>().gvk().kind().to_lowercase()),
        }
    }
}

impl<K: TypedObject> Builder<K> {
    /// Names the controller in logs and metrics. The default is the kind in lower case. Two controllers
    /// of one manager need two names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.rest = self.rest.named(name.into());
        self
    }

    /// Filters the events of the primary kind, and of no other watch. Given twice, both must let an
    /// event pass.
    pub fn for_filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.primary = Box::new(Both(self.primary, Box::new(predicate)));
        self
    }

    /// Says that this controller is the only one who writes the status of the primary kind.
    ///
    /// An update of nothing but the status is then taken for its own: it still requests the object, but
    /// does not cut a backoff short (CTRL-4), so that a reconcile that writes its status and then fails
    /// is not tried again at once. Without it every update counts as news, as in controller-runtime.
    /// Leave it out where anybody else writes that status: a kubelet, a cloud provider, a user.
    pub fn sole_status_writer(mut self) -> Self {
        self.handler = self.handler.sole_status_writer();
        self
    }

    /// Watches the objects of kind `C` that objects of the primary kind control: an event of one
    /// requests its controlling owner.
    ///
    /// To be told of every owner of the primary kind, controlling or not, use
    /// [`watches`](Self::watches) with [`handler::owner`](crate::handler::owner()).
    pub fn owns<C: TypedObject>(self) -> Self {
        self.owns_with::<C>(Everything)
    }

    /// As [`owns`](Self::owns), of the events alone that `predicate` lets pass.
    pub fn owns_with<C: TypedObject>(self, predicate: impl Predicate<C>) -> Self {
        self.watches_with::<C>(owner::<K>().controller_only(), predicate)
    }

    /// Watches kind `W` and requests what `handler` names.
    pub fn watches<W: TypedObject>(self, handler: impl EventHandler<W>) -> Self {
        self.watches_with::<W>(handler, Everything)
    }

    /// As [`watches`](Self::watches), of the events alone that `predicate` lets pass.
    pub fn watches_with<W: TypedObject>(
        mut self,
        handler: impl EventHandler<W>,
        predicate: impl Predicate<W>,
    ) -> Self {
        self.rest = self.rest.watches_with::<W>(handler, predicate);
        self
    }

    /// Filters the events of every watch of this controller, deletes included, before the watch's own
    /// predicate is asked. Given twice, both must let an event pass.
    pub fn filter_all(
        mut self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.rest = self.rest.filter_all(filter);
        self
    }

    /// Adds every request of a stream, for causes outside the cluster: a timer, a webhook, a poll.
    /// The stream is read as fast as it delivers, its end is no fault, and the workers do not wait
    /// for it.
    pub fn requests(mut self, requests: impl Stream<Item = Request> + Send + 'static) -> Self {
        self.rest = self.rest.requests(requests);
        self
    }

    /// How many requests are reconciled at once; 1 by default.
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.rest = self.rest.max_concurrent_reconciles(workers);
        self
    }

    /// How long a request that failed waits. The default doubles from 5 ms to 1000 s for each request
    /// by itself.
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<Request>) -> Self {
        self.rest = self.rest.rate_limiter(rate_limiter);
        self
    }

    /// Ends the controller with [`ControllerError::Sync`] where a watched kind has not had its first
    /// sync `timeout` after the start, and with the controller its manager. Zero takes the limit back.
    ///
    /// Without it a controller waits as long as a kind is missing or forbidden, says each minute what is
    /// missing and how to mend it, and starts by itself once it is there (`CTRL-7`).
    pub fn require_sync(mut self, timeout: Duration) -> Self {
        self.rest = self.rest.require_sync(timeout);
        self
    }

    /// How long a reconcile may take; no limit by default, and none where it is zero. Past it
    /// [`Context::cancelled`](crate::Context::cancelled) fires, and after
    /// [`deadline_grace`](Self::deadline_grace) the reconcile is dropped at its next await and tried
    /// again with backoff. Code that never awaits cannot be dropped.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.rest = self.rest.deadline(deadline);
        self
    }

    /// How long a reconcile may go on past its deadline; 5 s by default.
    pub fn deadline_grace(mut self, grace: Duration) -> Self {
        self.rest = self.rest.deadline_grace(grace);
        self
    }

    /// The field manager of the writes that its reconciles make with
    /// [`Context::client`](crate::Context::client), where a manager runs it: by default that of the manager's
    /// client options, and `program/controller` where they name none ([`Client::for_controller`](steersman_client::Client::for_controller)).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.rest = self.rest.field_manager(name);
        self
    }

    /// Completes the declaration.
    ///
    /// # Errors
    ///
    /// [`ControllerError::EmptyName`], [`ControllerError::NoWorkers`] and [`ControllerError::FieldManager`].
    pub fn build(self, reconciler: impl Reconciler) -> Result<Controller, ControllerError> {
        let primary = Watch::<K, Request>::new(self.primary, self.handler);
        self.rest
            .watching_first(Box::new(primary))
            .build(reconciler)
    }
}

// The predicates of several calls of `for_filter`.
struct Both<K>(Box<dyn Predicate<K>>, Box<dyn Predicate<K>>);

impl<K: TypedObject> Predicate<K> for Both<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

impl<K: TypedObject> fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kind", &Kind::of::<K>())
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}
