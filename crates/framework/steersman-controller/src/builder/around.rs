//! Handle: the methods of the builder that wrap the reconciler: in layers of tower, and in the layer of a pause.

use std::sync::Arc;

use steersman_object::TypedObject;
use steersman_object::status_conditions::HasConditions;
use tower::{BoxError, Layer, Service};

use super::{ControllerBuilder, PrimaryParts, Wrapper};
use crate::action::Action;
use crate::context::declared::PrimaryKind;
use crate::context::report::ConditionsOf;
use crate::handler::Itself;
use crate::handler::target::{ControllerTarget, Primary};
use crate::reconcile::pause::{PausePredicate, Pausing};
use crate::reconcile::{BoxReconciler, ReconcileCall, ReconcileService, boxed, layered};
use crate::request::Request;
use crate::status::ControllerStatus;
use crate::watch::EventRoute;

impl<P: ControllerTarget> ControllerBuilder<P> {
    /// Puts a layer of tower around the reconciler, as [`reconcile::layered`](crate::reconcile::layered)
    /// does: a time limit, tracing, a limit that several controllers share, or your own.
    ///
    /// The first layer is the outermost, as in `tower::ServiceBuilder`. The errors of layers are retried with backoff.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
    /// use tower::limit::GlobalConcurrencyLimitLayer;
    ///
    /// # let reconciler = reconcile::from_fn(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) });
    /// let controller = Controller::builder::<ConfigMap>()
    ///     .layer(GlobalConcurrencyLimitLayer::new(10))
    ///     .build(reconciler)?;
    /// # Ok::<_, steersman_controller::ControllerError>(())
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<ReconcileService<BoxReconciler<P::Key>>> + Send + 'static,
        L::Service: Service<ReconcileCall<P::Key>, Response = Action, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let wrapper = move |inner| boxed(layered(layer, inner));
        self.wrappers.push(Box::new(wrapper));
        self
    }
}

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Keeps requests for an object from the reconciler while `is_paused` returns true for the object (CTRL-32).
    ///
    /// The closure gets the object as the cache has it, before each reconcile, and both objects of each update that
    /// [`with_predicates`](Self::with_predicates) refuses. [`pause::annotation`](crate::pause::annotation) makes such a
    /// closure for an annotation. If this method is called twice, an object is paused while either closure returns
    /// true.
    ///
    /// An update that begins or ends the pause requests the object even if [`with_predicates`](Self::with_predicates)
    /// refuses the update. While an object is paused, requests for it end without a reconcile, even if it is being
    /// deleted: its finalizers stay. A running reconcile is not interrupted. [`ControllerStatus::paused_objects`] and
    /// the metric `steersman_controller_paused_objects` show the paused objects.
    ///
    /// ```
    /// # use k8s_openapi::api::batch::v1::CronJob;
    /// # use steersman_controller::{Action, Context, Controller, Error, Request, pause, reconcile};
    /// # let reconciler = reconcile::from_fn(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) });
    /// let controller = Controller::builder::<CronJob>()
    ///     .pause_when(pause::annotation("example.com/paused"))
    ///     .pause_when(|job| job.spec.suspend == Some(true))
    ///     .build(reconciler)?;
    /// # Ok::<_, steersman_controller::ControllerError>(())
    /// ```
    pub fn pause_when(mut self, is_paused: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.target.pause.add(is_paused);
        self
    }

    /// Writes the condition `Paused` with the status `True` to the objects that
    /// [`pause_when`](Self::pause_when) pauses, and removes the condition when the pause ends.
    pub fn report_pause(mut self) -> Self
    where
        K: HasConditions,
    {
        self.target.pause.conditions = Some(ConditionsOf::of());
        self
    }
}

impl<K: TypedObject> Primary<K> {
    pub(super) fn parts(self, status: &ControllerStatus) -> PrimaryParts<Request> {
        let (mut predicate, rule) = (self.predicate, self.pause);
        let mut pause = None;
        if !rule.rules.is_empty() {
            // CTRL-32: an update that begins or ends a pause requests the object, even if the predicate of the watch
            // refuses the update.
            predicate = Arc::new(PausePredicate {
                inner: predicate,
                rule: rule.clone(),
            });
            let status = status.clone();
            status.pauses();
            let wrapper: Wrapper<Request> = Box::new(move |inner| {
                boxed(Pausing {
                    rule,
                    status,
                    inner,
                })
            });
            pause = Some(wrapper);
        }
        let handler = Itself {
            sole_status_writer: self.sole_status_writer,
        };
        let kind = PrimaryKind::of::<K>();
        let route = EventRoute::<K, Self>::filtered(kind.kind.clone(), predicate, handler);
        PrimaryParts {
            watch: Box::new(route),
            kind,
            pause,
        }
    }
}
