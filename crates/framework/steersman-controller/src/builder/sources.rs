//! Handle: the methods of a builder that declare sources besides the kinds of the cache.

use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use steersman_client::Client;
use steersman_informer::Informer;
use steersman_object::{Kind, TypedObject};

use super::{ControllerBuilder, Primary, Subject};
use crate::error::Error;
use crate::handler::{EventHandler, owner};
use crate::predicate::{Everything, Predicate};
use crate::pump::InformerWatch;
use crate::source::channel::ChannelWatch;
use crate::source::periodic::Periodic;
use crate::source::{Channel, Poll, RequestStream};
use crate::watch::Watch;
use crate::watch::added::{FollowedSet, WatchSet};
use crate::watch::optional::OptionalWatch;

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Asks for the state of something outside the cluster, for each object of the primary kind, and requests
    /// the objects with another state than before. See [`source::poll`](crate::source::poll()).
    pub fn polls<T: PartialEq + Send + Sync + 'static>(mut self, poll: Poll<K, T>) -> Self {
        self.sources.push(Box::new(poll));
        self
    }

    /// Watches the objects of kind `C` that objects of the primary kind control, like [`owns`](Self::owns),
    /// whenever the server serves the kind. See [`watches_optional`](Self::watches_optional).
    pub fn owns_optional<C: TypedObject>(self) -> Self {
        self.owns_optional_with::<C>(Everything)
    }

    /// Watches like [`owns_optional`](Self::owns_optional), but only events that `predicate` lets pass.
    pub fn owns_optional_with<C: TypedObject>(mut self, predicate: impl Predicate<C>) -> Self {
        self.owned.push(Kind::of::<C>());
        self.watches_optional_with::<C>(owner::<K>().controller_only(), predicate)
    }
}

impl<P: Subject> ControllerBuilder<P> {
    /// Adds every request of a stream, for causes outside the cluster, such as a webhook.
    ///
    /// The stream is read as fast as it delivers, its end is no error, and the workers do not wait for
    /// it.
    pub fn requests(mut self, requests: impl Stream<Item = P::Key> + Send + 'static) -> Self {
        self.sources.push(Box::new(RequestStream(requests.boxed())));
        self
    }

    /// Adds the requests that `function` returns, at the interval `every`, shortened or lengthened by up to a
    /// tenth each time. `every` is at least a second.
    ///
    /// The first call is made after one interval, because the initial objects cause requests anyway. The next
    /// pause begins when a call has ended. The function gets the client of the controller, so it may select
    /// objects of the cache. An error, a panic, and a call that takes longer than the interval (at least 30 s)
    /// are logged, counted in `steersman_controller_periodic_errors_total`, and cost that call alone (SRC-6).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use steersman_client::Client;
    /// use steersman_controller::Controller;
    /// use steersman_object::{Object as _, ObjectKey, ListOptions};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let controller = Controller::builder::<Deployment>()
    ///     .requests_every(hour, |client: Client| async move {
    ///         let all = client.list::<Deployment>(&ListOptions::new()).await?;
    ///         let paused = all.iter().filter(|deployment| {
    ///             deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
    ///         });
    ///         Ok(paused.map(|deployment| deployment.key()).collect::<Vec<ObjectKey>>())
    ///     });
    /// # let _ = controller;
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The function is dropped at an await when its controller stops.
    pub fn requests_every<F, Fut, I>(mut self, every: Duration, function: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item: Into<P::Key>>,
    {
        let periodic = Periodic::<P::Key>::new(every, function);
        self.sources.push(Box::new(periodic));
        self
    }

    /// Takes the objects of a channel; `handler` names the requests that an object causes, as if the object
    /// had just been created. See [`source::channel`](crate::source::channel()).
    ///
    /// The end of the channel is no error, and the workers do not wait for it.
    pub fn watches_channel<W: TypedObject>(
        self,
        channel: Channel<W>,
        handler: impl EventHandler<W, P::Key>,
    ) -> Self {
        self.watches_channel_with(channel, handler, Everything)
    }

    /// Takes the objects of a channel like [`watches_channel`](Self::watches_channel), but only those that
    /// `predicate` lets pass as creations.
    pub fn watches_channel_with<W: TypedObject>(
        mut self,
        channel: Channel<W>,
        handler: impl EventHandler<W, P::Key>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::new(Box::new(predicate), handler);
        self.sources
            .push(Box::new(ChannelWatch::new(channel, watch)));
        self
    }

    /// Watches kind `W` whenever the server serves it; `handler` names the requests that an event causes.
    ///
    /// Use it for a kind of another project that need not be installed, such as a `ServiceMonitor` or a
    /// `Certificate`. The controller asks the server every 30 s whether it serves the kind (discovery, which
    /// every client may read), begins the watch when it does, and ends the watch when it does no more. Each
    /// change is one line of the log at level `INFO`. After [`Cache::remove`](steersman_cache::Cache::remove) of
    /// the kind the watch has ended until the controller starts again. The workers do not wait for the kind, neither
    /// before it is served nor for its first sync, and while it is missing, neither readiness nor
    /// [`ControllerStatus::waiting_for`](crate::ControllerStatus::waiting_for) name it. When the kind ends, objects
    /// without a delete event are handled as deleted (SRC-4).
    ///
    /// A read of a missing kind fails at once with an error that says so. A kind that is served but forbidden is a
    /// failure, as for any other watch. Without this method a controller waits for a missing kind (CTRL-7).
    pub fn watches_optional<W: TypedObject>(self, handler: impl EventHandler<W, P::Key>) -> Self {
        self.watches_optional_with::<W>(handler, Everything)
    }

    /// Watches like [`watches_optional`](Self::watches_optional), but only events that `predicate` lets pass.
    pub fn watches_optional_with<W: TypedObject>(
        mut self,
        handler: impl EventHandler<W, P::Key>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::new(Box::new(predicate), handler);
        self.sources.push(Box::new(OptionalWatch::new(watch)));
        self
    }

    /// Takes the events of an informer, which need not belong to the cache of the controller; `handler` names
    /// the requests that an event causes. As in controller-runtime's `source.Informer`, the workers do not wait
    /// for the informer, and its end is no error.
    pub fn watches_informer<W: TypedObject>(
        self,
        informer: Informer<W>,
        handler: impl EventHandler<W, P::Key>,
    ) -> Self {
        self.watches_informer_with(informer, handler, Everything)
    }

    /// Takes the events of an informer like [`watches_informer`](Self::watches_informer), but only those that
    /// `predicate` lets pass.
    pub fn watches_informer_with<W: TypedObject>(
        mut self,
        informer: Informer<W>,
        handler: impl EventHandler<W, P::Key>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::new(Box::new(predicate), handler);
        self.sources
            .push(Box::new(InformerWatch { informer, watch }));
        self
    }

    /// Follows a set of watches, to which watches can be added and from which they can be removed while the
    /// controller runs. See [`WatchSet`].
    pub fn watch_set(mut self, set: &WatchSet<P::Key>) -> Self {
        self.sources.push(Box::new(FollowedSet::new(set.clone())));
        self
    }
}
