//! Handle: the methods of a builder that declare sources besides the kinds of the cache.

use futures::stream::{Stream, StreamExt};
use steersman_object::TypedObject;

use super::{ControllerBuilder, Primary, Subject};
use crate::handler::EventHandler;
use crate::predicate::{Everything, Predicate};
use crate::source::channel::ChannelWatch;
use crate::source::{Channel, Poll, RequestStream};
use crate::watch::Watch;

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Asks for the state of something outside the cluster, for each object of the primary kind, and requests
    /// the objects with another state than before. See [`source::poll`](crate::source::poll()).
    pub fn polls<T: PartialEq + Send + Sync + 'static>(mut self, poll: Poll<K, T>) -> Self {
        self.sources.push(Box::new(poll));
        self
    }
}

impl<P: Subject> ControllerBuilder<P> {
    /// Adds every request of a stream, for causes outside the cluster: a timer, a webhook, a poll.
    ///
    /// The stream is read as fast as it delivers, its end is no error, and the workers do not wait for
    /// it.
    pub fn requests(mut self, requests: impl Stream<Item = P::Key> + Send + 'static) -> Self {
        self.sources.push(Box::new(RequestStream(requests.boxed())));
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
}
