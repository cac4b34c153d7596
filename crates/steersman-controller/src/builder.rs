//! Handle: declares a controller - its primary kind, what it owns and watches, how it works.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};
use steersman_object::{Kind, TypedObject};
use steersman_workqueue::RateLimiter;

use crate::controller::{Body, Controller};
use crate::error::ControllerError;
use crate::handler::{EventHandler, itself, owner};
use crate::options::Options;
use crate::predicate::{EventSummary, Everything, Predicate};
use crate::reconcile::Reconciler;
use crate::request::Request;
use crate::watch::{AnyWatch, FilterAll, Watch};

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
    name: Option<String>,
    primary: Box<dyn Predicate<K>>,
    watches: Vec<Box<dyn AnyWatch<Request>>>,
    streams: Vec<BoxStream<'static, Request>>,
    filter_all: Option<FilterAll>,
    options: Options<Request>,
}

impl Controller {
    /// Declares a controller whose requests are objects of the kind `K`.
    pub fn builder<K: TypedObject>() -> Builder<K> {
        Builder {
            name: None,
            primary: Box::new(Everything),
            watches: Vec::new(),
            streams: Vec::new(),
            filter_all: None,
            options: Options::default(),
        }
    }
}

impl<K: TypedObject> Builder<K> {
    /// Names the controller, in logs, metrics and as the manager of the fields it writes. The default
    /// is the kind in lower case. Two controllers of one manager need two names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Filters the events of the primary kind, and of no other watch. Given twice, both must let an
    /// event pass.
    pub fn for_filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.primary = Box::new(Both(self.primary, Box::new(predicate)));
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
        let watch = Watch::<W, Request>::new(Box::new(predicate), handler);
        self.watches.push(Box::new(watch));
        self
    }

    /// Filters the events of every watch of this controller, deletes included, before the watch's own
    /// predicate is asked. Given twice, both must let an event pass.
    pub fn filter_all(
        mut self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter_all = Some(match self.filter_all {
            Some(first) => Arc::new(move |event: &EventSummary<'_>| first(event) && filter(event)),
            None => Arc::new(filter),
        });
        self
    }

    /// Adds every request of a stream, for causes outside the cluster: a timer, a webhook, a poll.
    /// The stream is read as fast as it delivers, its end is no fault, and the workers do not wait
    /// for it.
    pub fn requests(mut self, requests: impl Stream<Item = Request> + Send + 'static) -> Self {
        self.streams.push(requests.boxed());
        self
    }

    /// How many requests are reconciled at once; 1 by default.
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.options.max_concurrent_reconciles = workers;
        self
    }

    /// How long a request that failed waits. The default doubles from 5 ms to 1000 s for each request
    /// by itself.
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<Request>) -> Self {
        self.options.rate_limiter = Some(Box::new(rate_limiter));
        self
    }

    /// How long the start may wait for the initial sets of the watched kinds; 2 min by default.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.options.sync_timeout = timeout;
        self
    }

    /// How long a reconcile may take; no limit by default. Past it
    /// [`Context::cancelled`](crate::Context::cancelled) fires, and after
    /// [`deadline_grace`](Self::deadline_grace) the reconcile is dropped at its next await and tried
    /// again with backoff. Code that never awaits cannot be dropped.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// How long a reconcile may go on past its deadline; 5 s by default.
    pub fn deadline_grace(mut self, grace: Duration) -> Self {
        self.options.deadline_grace = grace;
        self
    }

    /// Completes the declaration.
    ///
    /// # Errors
    ///
    /// [`ControllerError::EmptyName`] and [`ControllerError::NoWorkers`].
    pub fn build(self, reconciler: impl Reconciler) -> Result<Controller, ControllerError> {
        let kind = Kind::of::<K>();
        let name = self
            .name
            .unwrap_or_else(|| kind.gvk().kind().to_lowercase());
        if name.trim().is_empty() {
            return Err(ControllerError::EmptyName { kind });
        }
        if self.options.max_concurrent_reconciles == 0 {
            return Err(ControllerError::NoWorkers { controller: name });
        }
        let primary = Watch::<K, Request>::new(self.primary, itself());
        let mut watches: Vec<Box<dyn AnyWatch<Request>>> = vec![Box::new(primary)];
        watches.extend(self.watches);
        Ok(Controller::new(Body {
            name,
            watches,
            streams: self.streams,
            filter_all: self.filter_all,
            options: self.options,
            reconciler,
        }))
    }
}

// The predicates of several calls of `for_filter`.
struct Both<K>(Box<dyn Predicate<K>>, Box<dyn Predicate<K>>);

impl<K: TypedObject> Predicate<K> for Both<K> {
    fn passes(&self, event: &steersman_informer::Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

impl<K: TypedObject> fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("watches", &(self.watches.len() + 1))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
