//! Handle: a bounded channel of objects that cause requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{Stream, StreamExt};
use steersman_cache::Cache;
use steersman_informer::{Entry, Event, Origin};
use steersman_object::Object;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::context::reason::STREAM;
use crate::handler::target::ControllerTarget;
use crate::watch::{AnySource, EventRoute, PumpEnd, Sink};

/// The default bound of a [`channel`], in objects. controller-runtime's `source.Channel` has the same default.
pub const DEFAULT_CHANNEL_BOUND: usize = 1024;

/// Makes a channel that holds at most [`DEFAULT_CHANNEL_BOUND`] objects; see [`Channel`].
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::apps::v1::Deployment;
/// use steersman_controller::{Controller, Watch, handler, source};
///
/// let (sender, alarms) = source::channel::<Deployment>();
/// let controller = Controller::builder::<Deployment>()
///     .watch(Watch::channel(alarms, handler::itself()));
///
/// // A server of webhooks, for example, requests an object with `sender.send(deployment).await`.
/// assert!(sender.try_send(Deployment::default()).is_ok());
/// ```
pub fn channel<T>() -> (ChannelSender<T>, Channel<T>) {
    channel_with_bound(DEFAULT_CHANNEL_BOUND)
}

/// Makes a channel that holds at most `objects` objects; see [`Channel`]. Zero counts as one.
pub fn channel_with_bound<T>(objects: usize) -> (ChannelSender<T>, Channel<T>) {
    let bound = objects.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
    // CTRL-41: the channel has a bound, so that `send` waits while the channel is full.
    let (sender, receiver) = mpsc::channel(bound);
    (ChannelSender { sender }, Channel { receiver })
}

/// The receiving end of a channel: a source for one controller.
///
/// [`Watch::channel`](crate::Watch::channel) takes a channel of Kubernetes objects. Each object counts as a creation
/// (controller-runtime: `GenericEvent`): the filters, the predicate and the handler of the channel decide about it, and
/// a panic of one of these loses that object alone (CTRL-6). A channel of other values is a stream of `Arc`s, to be
/// mapped to requests for [`Watch::requests`](crate::Watch::requests).
///
/// The controller takes objects from its start to its end. Before the start objects wait in the channel up to its
/// bound, also on a replica that does not lead. At the end the waiting objects are dropped, and later sends fail.
#[derive(derive_more::Debug)]
#[debug("Channel {{ waiting: {}, .. }}", receiver.len())]
#[must_use = "a channel that no controller takes fills up"]
pub struct Channel<T> {
    receiver: mpsc::Receiver<Arc<T>>,
}

/// The sending end of a [`Channel`]. Cheap to clone; the channel ends when all clones are dropped.
#[derive(derive_more::Debug)]
#[debug("ChannelSender {{ free: {}, .. }}", sender.capacity())]
pub struct ChannelSender<T> {
    sender: mpsc::Sender<Arc<T>>,
}

/// An object that [`ChannelSender::send`] or [`ChannelSender::try_send`] could not send, with the reason.
#[derive(derive_more::Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsent<T> {
    /// The channel holds as many objects as its bound allows; a later send may succeed.
    #[debug("Full")]
    #[error("the channel is full: wait with `send` until the controller takes an object")]
    Full(Arc<T>),
    /// The controller has ended, or the channel was dropped.
    #[debug("Closed")]
    #[error("the channel is closed: its controller has ended, or was never built")]
    Closed(Arc<T>),
}

pub(crate) struct ChannelWatch<K: Object, P: ControllerTarget> {
    pub(crate) channel: Channel<K>,
    pub(crate) route: EventRoute<K, P>,
}

// === impl ChannelSender ===

impl<T> ChannelSender<T> {
    /// Sends an object, and waits while the channel is full.
    ///
    /// # Errors
    ///
    /// [`Unsent::Closed`] if the controller has ended or the channel was dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the object of a dropped future was not sent. A new call waits behind the present senders.
    pub async fn send(&self, object: impl Into<Arc<T>>) -> Result<(), Unsent<T>> {
        let sent = self.sender.send(object.into()).await;
        sent.map_err(|unsent| Unsent::Closed(unsent.0))
    }

    /// Sends an object if the channel is not full.
    ///
    /// # Errors
    ///
    /// [`Unsent::Full`] if the channel is full, [`Unsent::Closed`] if the controller has ended or the channel was
    /// dropped.
    pub fn try_send(&self, object: impl Into<Arc<T>>) -> Result<(), Unsent<T>> {
        let sent = self.sender.try_send(object.into());
        sent.map_err(|unsent| match unsent {
            TrySendError::Full(object) => Unsent::Full(object),
            TrySendError::Closed(object) => Unsent::Closed(object),
        })
    }

    /// Returns whether the controller has ended, or the channel was dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<T> Clone for ChannelSender<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

// === impl Channel ===

impl<T> Stream for Channel<T> {
    type Item = Arc<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<T>>> {
        self.receiver.poll_recv(cx)
    }
}

// === impl Unsent ===

impl<T> Unsent<T> {
    /// Returns the object that was not sent.
    #[must_use]
    pub fn into_object(self) -> Arc<T> {
        match self {
            Self::Full(object) | Self::Closed(object) => object,
        }
    }

    /// Returns whether the channel was full, so that a later send may succeed.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the controller has ended, or the channel was dropped.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

// === impl ChannelWatch ===

impl<K: Object, P: ControllerTarget> AnySource<P::Key> for ChannelWatch<K, P> {
    fn run(mut self: Box<Self>, _: Cache, sink: Sink<P::Key>) -> BoxFuture<'static, PumpEnd> {
        Box::pin(async move {
            while let Some(object) = self.channel.next().await {
                let event = Event::created(Entry::new(object), Origin::Live);
                sink.handle_caused(&self.route, &event, STREAM).await;
                tokio::task::coop::consume_budget().await;
            }
            PumpEnd::Finished
        })
    }
}
