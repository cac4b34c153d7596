//! Handle: the constructors of watches, and the sources of requests that a builder makes of these watches.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use kube_core::{DynamicObject, PartialObjectMeta};
use steersman_client::Client;
use steersman_informer::Informer;
use steersman_object::{Kind, Object, TypedObject};

use crate::error::Error;
use crate::handler::target::{ControllerTarget, Keyed, Primary};
use crate::handler::{EventHandler, owner};
use crate::pump::InformerWatch;
use crate::request::{ClusterRequest, Request};
use crate::source::channel::ChannelWatch;
use crate::source::periodic::Periodic;
use crate::source::{Channel, Poll, RequestStream};
use crate::watch::added::WatchSet;
use crate::watch::declared::{Watch, WatchedKind, WatchedObjects, WatchedRequests};
use crate::watch::in_clusters::ClusterWatch;
use crate::watch::optional::OptionalWatch;
use crate::watch::{AnySource, EventRoute, Sources};

/// A source of requests in a [`Watch`] that a controller of `P` takes. `P` is [`Primary`] for requests about objects of
/// one kind, or [`Keyed`] for requests of the program's own type.
///
/// The trait is sealed: other crates cannot implement it.
#[diagnostic::on_unimplemented(
    message = "a controller of `{P}` takes no watch of `{Self}`",
    note = "a watch of `owned`, `owned_kind` or `poll` belongs to `Controller::builder` of the same kind, and one of \
            `in_clusters` to `Controller::keyed` with `ClusterRequest`s"
)]
pub trait WatchSource<P: ControllerTarget>: sealed::DeclareSource<P> {}

mod sealed {
    use super::{ControllerTarget, Sources};

    #[expect(
        unnameable_types,
        reason = "so that no other crate can implement `WatchSource`"
    )]
    pub trait DeclareSource<P: ControllerTarget> {
        fn declare(self, sources: &mut Sources<P::Key>);
    }
}

// === impl Watch ===

impl<P: ControllerTarget> Watch<WatchedRequests<P>> {
    /// Watches kind `W`; `handler` names the requests that an event causes. In controller-runtime: `Watches`.
    ///
    /// Two watches of a kind, of one controller or of several, share an informer. The workers wait for the first sync
    /// of the kind (CTRL-1), without a limit unless [`require_sync`](crate::ControllerBuilder::require_sync) sets one.
    pub fn of<W: TypedObject>(handler: impl EventHandler<W, P>) -> Watch<WatchedKind<W, P>> {
        Self::kind(Kind::of::<W>(), handler)
    }

    /// Watches the metadata of kind `W`; the handler and the predicates get no other part of an object. In
    /// controller-runtime: `WatchesMetadata`, or `builder.OnlyMetadata`.
    ///
    /// As long as no other reader needs whole objects of the kind, the server sends metadata alone.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use steersman_controller::handler::itself;
    /// use steersman_controller::{Controller, Watch};
    ///
    /// // The Secret with the name of the ConfigMap.
    /// let controller =
    ///     Controller::builder::<ConfigMap>().watch(Watch::metadata_of::<Secret>(itself()));
    /// ```
    pub fn metadata_of<W: TypedObject>(
        handler: impl EventHandler<PartialObjectMeta<W>, P>,
    ) -> Watch<WatchedKind<PartialObjectMeta<W>, P>> {
        Self::of::<PartialObjectMeta<W>>(handler)
    }

    /// Watches a kind that is known only at run time; `handler` names the requests that an event causes, as for
    /// [`Watch::of`].
    ///
    /// Objects are read as `W`s: `DynamicObject` for whole objects, `PartialObjectMeta<DynamicObject>` for
    /// metadata, or a type that several kinds decode to. A [`Kind`] comes from its parts, or from
    /// [`Client::mapper`](steersman_client::Client::mapper), which asks the server for the plural and the
    /// scope. In controller-runtime: `Watches` of an `unstructured.Unstructured`.
    ///
    /// ```
    /// use kube_core::DynamicObject;
    /// use steersman_controller::handler::itself;
    /// use steersman_controller::{Controller, Request, Watch};
    /// use steersman_object::{Gvk, Kind, Scope};
    ///
    /// let gvk = Gvk::new("web.example.com", "v1", "Website");
    /// let websites = Kind::new(gvk, "websites", Scope::Namespaced);
    /// let controller = Controller::keyed::<Request>("websites")
    ///     .watch(Watch::kind::<DynamicObject>(websites, itself()));
    /// ```
    pub fn kind<W: Object>(
        kind: Kind,
        handler: impl EventHandler<W, P>,
    ) -> Watch<WatchedKind<W, P>> {
        let route = EventRoute::new(kind, handler);
        Watch {
            source: WatchedKind::new(route, false),
        }
    }

    /// Takes the objects of a channel; `handler` names the requests that an object causes, as if the object had just
    /// been created. See [`source::channel`](crate::source::channel()). In controller-runtime: `source.Channel`.
    ///
    /// The end of the channel is no error, and the workers start without waiting for the channel.
    pub fn channel<W: TypedObject>(
        channel: Channel<W>,
        handler: impl EventHandler<W, P>,
    ) -> Watch<WatchedObjects<W, P>> {
        let route = EventRoute::new(Kind::of::<W>(), handler);
        Watch {
            source: WatchedObjects::new(route, |route| ChannelWatch { channel, route }),
        }
    }

    /// Takes the events of an informer, which need not belong to the cache of the controller; `handler` names
    /// the requests that an event causes. In controller-runtime: `source.Informer`.
    ///
    /// The workers do not wait for the informer, and its end is no error.
    pub fn informer<W: TypedObject>(
        informer: Informer<W>,
        handler: impl EventHandler<W, P>,
    ) -> Watch<WatchedObjects<W, P>> {
        let route = EventRoute::new(Kind::of::<W>(), handler);
        Watch {
            source: WatchedObjects::new(route, |route| InformerWatch { informer, route }),
        }
    }

    /// Adds every request of a stream, for causes outside the cluster (controller-runtime: `source.Func`).
    ///
    /// The stream is read as fast as it delivers requests. The end of the stream is no error, and the workers start
    /// without waiting for the stream.
    pub fn requests(requests: impl Stream<Item = P::Key> + Send + 'static) -> Self {
        Self::of_source(RequestStream(requests.boxed()))
    }

    /// Adds the requests that `function` returns, once per `interval`, which is at least a second. Each interval is
    /// shortened or lengthened by up to a tenth, so that the calls of several programs do not stay together.
    ///
    /// The first call is made after one interval, because the initial objects cause requests anyway, and each next
    /// interval begins when a call has ended. The function gets the client of the controller, so it can select objects
    /// of the cache. A call fails if it returns an error, panics, or exceeds both the interval and 30 s. A failed call
    /// is logged and counted in `steersman_controller_periodic_errors_total`, and only its own requests are lost
    /// (SRC-6).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use steersman_client::Client;
    /// use steersman_controller::{Controller, Watch};
    /// use steersman_object::{ListOptions, Object as _, ObjectKey};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let hourly = Watch::every(hour, |client: Client| async move {
    ///     let all = client.list::<Deployment>(&ListOptions::new()).await?;
    ///     let paused = all.iter().filter(|deployment| {
    ///         deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
    ///     });
    ///     Ok(paused.map(|deployment| deployment.key()).collect::<Vec<ObjectKey>>())
    /// });
    /// let controller = Controller::builder::<Deployment>().watch(hourly);
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The function is dropped at an await when its controller stops.
    pub fn every<F, Fut, I>(interval: Duration, function: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item: Into<P::Key>>,
    {
        Self::of_source(Periodic::new(interval, function))
    }

    /// Follows a set of watches, to which watches can be added and from which they can be removed while the
    /// controller runs. See [`WatchSet`]. In controller-runtime: `Controller.Watch`.
    pub fn set(set: &WatchSet<P>) -> Self {
        Self::of_source(set.clone())
    }

    fn of_source(source: impl AnySource<P::Key> + 'static) -> Self {
        let source = Box::new(source);
        Self {
            source: WatchedRequests { source },
        }
    }
}

impl<K: TypedObject> Watch<WatchedRequests<Primary<K>>> {
    /// Watches the objects of kind `C` that objects of the primary kind control. An event of such an object requests
    /// its controlling owner. In controller-runtime: `Owns`.
    ///
    /// [`Watch::of`] with [`handler::owner`](crate::handler::owner()) requests every owner of the primary kind,
    /// controlling or not. The roles of `cargo steersman generate` let the program create, patch and delete objects of
    /// an owned kind, and only read those of another watch.
    ///
    /// With a `PartialObjectMeta<C>` as the type, the server sends metadata alone, unless another reader needs whole
    /// objects.
    pub fn owned<C: TypedObject>() -> Watch<WatchedKind<C, Primary<K>>> {
        Self::owned_as(Kind::of::<C>())
    }

    /// Watches a kind that is known only at run time. An event of an object that an object of the primary kind controls
    /// requests this owner, as for [`Watch::owned`].
    ///
    /// The watch needs metadata alone: the server sends whole objects only if another reader needs them.
    pub fn owned_kind(
        kind: Kind,
    ) -> Watch<WatchedKind<PartialObjectMeta<DynamicObject>, Primary<K>>> {
        Self::owned_as(kind)
    }

    fn owned_as<C: Object>(kind: Kind) -> Watch<WatchedKind<C, Primary<K>>> {
        let route = EventRoute::new(kind, owner::<K>().controller_only());
        Watch {
            source: WatchedKind::new(route, true),
        }
    }

    /// Polls the state of something outside the cluster for each object of the primary kind, and requests the objects
    /// with a changed state. See [`source::poll`](crate::source::poll()).
    pub fn poll<T: PartialEq + Send + Sync + 'static>(poll: Poll<K, T>) -> Self {
        Self::of_source(poll)
    }
}

// === impl WatchSource ===

impl<P: ControllerTarget, S: sealed::DeclareSource<P>> WatchSource<P> for S {}

impl<W: Object, P: ControllerTarget> sealed::DeclareSource<P> for WatchedKind<W, P> {
    fn declare(self, sources: &mut Sources<P::Key>) {
        if self.is_owned {
            sources.owned.push(self.route.kind().clone());
        }
        match self.is_optional {
            true => sources.others.push(Box::new(OptionalWatch(self.route))),
            false => sources.watches.push(Box::new(self.route)),
        }
    }
}

impl<W: Object> sealed::DeclareSource<Keyed<ClusterRequest>>
    for WatchedKind<W, Keyed<Request>, Keyed<ClusterRequest>>
{
    fn declare(self, sources: &mut Sources<ClusterRequest>) {
        sources.cluster_watches.push(Arc::new(ClusterWatch {
            route: self.route,
            is_optional: self.is_optional,
        }));
    }
}

impl<W: Object, P: ControllerTarget> sealed::DeclareSource<P> for WatchedObjects<W, P> {
    fn declare(self, sources: &mut Sources<P::Key>) {
        sources.others.push((self.begin)(self.route));
    }
}

impl<P: ControllerTarget> sealed::DeclareSource<P> for WatchedRequests<P> {
    fn declare(self, sources: &mut Sources<P::Key>) {
        sources.others.push(self.source);
    }
}
