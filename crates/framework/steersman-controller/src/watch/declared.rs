//! Handle: the watch that a builder or a [`WatchSet`](crate::WatchSet) takes.

use std::marker::PhantomData;

use steersman_object::Object;

use crate::handler::target::{ControllerTarget, Keyed};
use crate::predicate::Predicate;
use crate::request::{ClusterRequest, Request};
use crate::watch::{AnySource, EventRoute};

/// A source of requests of a controller: a watched kind, a channel, an informer, a stream, a poll or an interval.
///
/// [`ControllerBuilder::watch`](crate::ControllerBuilder::watch) takes every watch, and
/// [`WatchSet::add`](crate::WatchSet::add) takes watches of kinds. A [`handler`](crate::handler) turns an event into
/// requests.
///
/// | Constructor | An event of … | In controller-runtime |
/// | --- | --- | --- |
/// | [`Watch::of`] | a kind, with whole objects | `Watches` |
/// | [`Watch::metadata_of`] | a kind, with metadata alone | `WatchesMetadata` |
/// | [`Watch::kind`] | a kind that is known at run time | `Watches` of `unstructured.Unstructured` |
/// | [`Watch::owned`], [`Watch::owned_kind`] | a kind of objects that the primary kind controls | `Owns` |
/// | [`Watch::channel`] | a channel of objects | `source.Channel` |
/// | [`Watch::informer`] | an informer, of any cache | `source.Informer` |
/// | [`Watch::requests`] | a stream of requests | `source.Func` |
/// | [`Watch::every`] | an interval | |
/// | [`Watch::poll`] | something outside the cluster, per object | |
/// | [`Watch::set`] | kinds that are added and removed at run time | `Controller.Watch` |
///
/// [`filter`](Self::filter) adds a predicate to a watch of objects. [`optional`](Self::optional) and
/// [`in_clusters`](Self::in_clusters) change a watch of a kind. The order of these calls does not matter. A combination
/// that makes no sense does not compile:
///
/// ```compile_fail,E0599
/// # use k8s_openapi::api::core::v1::Secret;
/// # use steersman_controller::{Controller, Watch, handler, source};
/// # let (_sender, secrets) = source::channel::<Secret>();
/// # let controller = Controller::builder::<Secret>();
/// // A channel is never missing on the server.
/// controller.watch(Watch::channel(secrets, handler::itself()).optional());
/// ```
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use k8s_openapi::api::policy::v1::PodDisruptionBudget;
/// use steersman_controller::handler::{itself, mapped, owner};
/// use steersman_controller::predicate::{generation_changed, labels_changed};
/// use steersman_controller::{Controller, Request, Watch, source};
/// use steersman_object::ObjectKey;
///
/// let default = |_: &Secret| [ObjectKey::namespaced("default", "web")];
/// let (_sender, alarms) = source::channel::<Deployment>();
/// let controller = Controller::builder::<Deployment>()
///     .owns::<ConfigMap>()
///     .watches::<StatefulSet>(owner())
///     .watch(Watch::owned::<PodDisruptionBudget>().filter(generation_changed()).optional())
///     .watch(Watch::of::<Secret>(mapped(default)).filter(labels_changed()))
///     .watch(Watch::channel(alarms, itself()))
///     .watch(Watch::requests(futures::stream::empty::<Request>()));
/// ```
#[derive(Debug)]
#[must_use = "pass it to `ControllerBuilder::watch` or `WatchSet::add`"]
pub struct Watch<S> {
    pub(crate) source: S,
}

/// The source of a [`Watch`] of a kind with objects decoded as `W`. The handler makes requests of `P`, and a controller
/// of `C` takes the watch; `P` and `C` differ only after [`Watch::in_clusters`].
#[derive(derive_more::Debug)]
#[debug("WatchedKind({:?})", route.kind())]
pub struct WatchedKind<W: Object, P: ControllerTarget, C = P> {
    pub(crate) route: EventRoute<W, P>,
    pub(crate) is_optional: bool,
    pub(crate) is_owned: bool,
    of: PhantomData<fn(C)>,
}

/// The source of a [`Watch`] of a channel or an informer with objects of type `W`, for a controller of `P`.
#[derive(derive_more::Debug)]
#[debug("WatchedObjects({:?})", route.kind())]
pub struct WatchedObjects<W: Object, P: ControllerTarget> {
    pub(crate) route: EventRoute<W, P>,
    pub(crate) begin: BeginSource<W, P>,
}

/// The source of a [`Watch`] that makes requests without objects, for a controller of `P`.
#[derive(derive_more::Debug)]
#[debug("WatchedRequests {{ .. }}")]
pub struct WatchedRequests<P: ControllerTarget> {
    pub(crate) source: Box<dyn AnySource<P::Key>>,
}

/// Makes the source when a builder takes the watch. The route has the predicates and the handler of the watch by then.
type BeginSource<W, P> =
    Box<dyn FnOnce(EventRoute<W, P>) -> Box<dyn AnySource<<P as ControllerTarget>::Key>> + Send>;

// === impl Watch ===

impl<W: Object, P: ControllerTarget, C> Watch<WatchedKind<W, P, C>> {
    /// Adds a predicate. An event must pass all added predicates; without a predicate all events pass. In
    /// controller-runtime: `builder.WithPredicates`.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_controller::{Controller, Watch};
    /// use steersman_controller::predicate::labels_changed;
    ///
    /// let controller = Controller::builder::<Deployment>()
    ///     .watch(Watch::owned::<ConfigMap>().filter(labels_changed()));
    /// ```
    pub fn filter(mut self, predicate: impl Predicate<W>) -> Self {
        self.source.route.filter(predicate);
        self
    }

    /// Watches the kind whenever the server serves it. By default a controller waits for a missing kind (CTRL-7).
    ///
    /// Use it for a kind of another project that need not be installed, such as a `ServiceMonitor` or a `Certificate`.
    /// The controller asks the server every 30 s whether it serves the kind (discovery, which every client may read),
    /// and begins and ends the watch accordingly. Each begin and end is logged at level `INFO`. If the kind is removed
    /// from the cache ([`Cache::remove`](steersman_cache::Cache::remove)), the watch ends, and does not begin again
    /// until the controller starts again. The workers do not wait for the kind, and while it is missing, neither
    /// readiness nor [`ControllerStatus::waiting_for`](crate::ControllerStatus::waiting_for) name it. When the server
    /// stops serving the kind, cached objects without a delete event are handled as deleted (SRC-4).
    ///
    /// A read of a missing kind fails at once with an error that says so. A kind that is served but forbidden is a
    /// failure, as for any other watch. controller-runtime has no such watch.
    pub fn optional(mut self) -> Self {
        self.source.is_optional = true;
        self
    }
}

impl<W: Object> Watch<WatchedKind<W, Keyed<Request>>> {
    /// Watches the kind in each present and later cluster that the manager has besides its own. The framework adds the
    /// cluster to the requests of the handler, so the controller is [`Controller::keyed`](crate::Controller::keyed)
    /// with [`ClusterRequest`]s.
    ///
    /// The workers do not wait for the first syncs of these clusters (CTRL-12), but a read with
    /// [`Context::client_in`](crate::Context::client_in) waits for the first sync of its kind. In controller-runtime,
    /// each `cluster.Cluster` needs its own source.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman_controller::handler::itself;
    /// use steersman_controller::{ClusterRequest, Controller, Watch};
    ///
    /// let copies = Controller::keyed::<ClusterRequest>("copies")
    ///     .watch(Watch::of::<ConfigMap>(itself()).in_clusters());
    /// ```
    pub fn in_clusters(self) -> Watch<WatchedKind<W, Keyed<Request>, Keyed<ClusterRequest>>> {
        Watch {
            source: WatchedKind {
                route: self.source.route,
                is_optional: self.source.is_optional,
                is_owned: false,
                of: PhantomData,
            },
        }
    }
}

impl<W: Object, P: ControllerTarget> Watch<WatchedObjects<W, P>> {
    /// Adds a predicate. An event must pass all added predicates. An object of a channel counts as a creation.
    pub fn filter(mut self, predicate: impl Predicate<W>) -> Self {
        self.source.route.filter(predicate);
        self
    }
}

// === impl WatchedKind ===

impl<W: Object, P: ControllerTarget> WatchedKind<W, P> {
    pub(crate) fn new(route: EventRoute<W, P>, is_owned: bool) -> Self {
        Self {
            route,
            is_optional: false,
            is_owned,
            of: PhantomData,
        }
    }
}

// === impl WatchedObjects ===

impl<W: Object, P: ControllerTarget> WatchedObjects<W, P> {
    pub(crate) fn new<S: AnySource<P::Key> + 'static>(
        route: EventRoute<W, P>,
        begin: impl FnOnce(EventRoute<W, P>) -> S + Send + 'static,
    ) -> Self {
        Self {
            route,
            begin: Box::new(|route| Box::new(begin(route))),
        }
    }
}
