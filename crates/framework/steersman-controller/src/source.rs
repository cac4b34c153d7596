//! Driver: the sources of requests: kinds of the cache, channels, polls, and streams of requests.
//!
//! [`channel()`] makes a channel of objects, for [`Watch::channel`](crate::Watch::channel). [`poll()`] polls the state
//! of something outside the cluster, for [`Watch::poll`](crate::Watch::poll).

pub(crate) mod channel;
pub(crate) mod poll;
pub(crate) mod periodic;

use std::panic::AssertUnwindSafe;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
use steersman_cache::{Cache, Error};
use steersman_informer::{Informer, Subscription};
use steersman_object::{Kind, Object, panic_text};
use steersman_workqueue::AddOptions;

use crate::context::reason::STREAM;
use crate::request::RequestKey;
use crate::watch::{AnySource, PumpEnd, Sink};

pub use channel::{
    Channel, ChannelSender, DEFAULT_CHANNEL_BOUND, Unsent, channel, channel_with_bound,
};
pub use poll::{Poll, PollResults, poll};

pub(crate) struct RequestStream<R>(pub(crate) BoxStream<'static, R>);

impl<R: RequestKey> AnySource<R> for RequestStream<R> {
    fn run(mut self: Box<Self>, _: Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        Box::pin(async move {
            let all = async {
                while let Some(request) = self.0.next().await {
                    sink.request(request);
                    tokio::task::coop::consume_budget().await;
                }
            };
            match AssertUnwindSafe(all).catch_unwind().await {
                Ok(()) => PumpEnd::Finished,
                Err(payload) => PumpEnd::StreamPanicked {
                    message: panic_text(&*payload).to_owned(),
                },
            }
        })
    }
}

impl<R: RequestKey> Sink<R> {
    fn request(&self, request: R) {
        self.queue
            .add_with(request, AddOptions::new().cause(STREAM));
    }
}

/// Subscribes to every informer of a kind: the cache has one informer of a kind per namespace, or one for all of them.
pub(crate) fn subscribe<K: Object>(
    cache: &Cache,
    kind: &Kind,
) -> Result<Vec<Subscription<K>>, Error> {
    let informers = cache.informers_of::<K>(kind)?;
    Ok(informers.iter().map(Informer::subscribe).collect())
}
