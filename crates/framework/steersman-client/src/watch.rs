//! Handle: a watch for code outside reconcilers, over a cache of its own.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _};
use steersman_api::ClientConfig;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{
    ByObject, Cache, CacheOptions, Delivery, InformerFailure, Reads, Settings, Subscription,
};
use steersman_object::{Kind, ListOptions, Object, ResourceVersion};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// A stream of the selected objects of one kind and their changes, from the server and not from the client's cache: a
/// list, and a watch that restarts after an error. [`Client::watch`](crate::Client::watch) makes it.
///
/// The stream delivers each present object as [`Event::Created`](steersman_cache::Event::Created), then
/// [`Delivery::Synced`], then changes with the old and the new object. It resumes after a broken connection and after
/// any number of 429 and 5xx, and lists again after a 410. Objects that were deleted meanwhile are then delivered as
/// [`Event::Deleted`](steersman_cache::Event::Deleted), and an object that was deleted and created again is delivered
/// twice: as deleted and as created.
///
/// The stream has an error only at its end, if the client configuration cannot make a client (its credentials are
/// broken). Failed requests, such as a 403, are repeated; [`informer_failures`](Self::informer_failures) returns the
/// reason.
///
/// An object that does not decode as `K` is left out and logged. If the stream is read slowly, events beyond a bound
/// are coalesced by object (FAN-2). The watched objects are held in memory until the stream is dropped.
///
/// # Cancel safety
///
/// The watch begins when [`next`](Self::next) or the stream is polled for the first time. Polling starts the informers
/// of the watch in tasks of their own, and notices their end; dropping the stream aborts these tasks. Dropping a future
/// of `next` loses nothing.
#[derive(derive_more::Debug)]
#[debug("ObjectWatch {{ .. }}")]
#[must_use = "a watch does nothing unless its stream is polled"]
pub struct ObjectWatch<K> {
    cache: Cache,
    stream: BoxStream<'static, Result<Delivery<K>, Error>>,
}

/// A cache of the selected objects of one kind, for a single watch or wait, and the future that runs the cache.
pub(crate) struct PrivateCache<K> {
    pub(crate) cache: Cache,
    pub(crate) reads: Reads<K>,
    pub(crate) run: BoxFuture<'static, Result<(), steersman_cache::Error>>,
}

impl<K: Object> PrivateCache<K> {
    /// Makes a cache of the objects that the list options select; the list options must name no index. Sends no request
    /// before the future is polled.
    pub(crate) fn new(
        client_config: &ClientConfig,
        kind: &Kind,
        list_options: &ListOptions,
    ) -> Result<Self, Error> {
        let mut settings = Settings::new();
        if !list_options.selected_labels().is_everything() {
            settings = settings.labels(list_options.selected_labels().to_string());
        }
        if !list_options.selected_fields().is_everything() {
            settings = settings.fields(list_options.selected_fields().to_string());
        }
        let mut options = ByObject::new().settings(settings);
        if let (true, Some(namespace)) = (kind.is_namespaced(), list_options.selected_namespace()) {
            options = options.namespaces([namespace]);
        }
        // The first sync has no time limit here, because a wait has its own limit and a watch has none.
        let all = CacheOptions::new().sync_timeout(Duration::MAX);
        let cache = Cache::new(all.by_kind(kind, options))?;
        // CLIENT-9: the first list is the newest (RYOW-10), so that it holds an object that was created just before.
        cache.note_written(kind.gvk(), &ResourceVersion::unset());
        let run = cache.run(client_config.clone(), CancellationToken::new());
        Ok(Self {
            reads: cache.of(kind),
            run: run.boxed(),
            cache,
        })
    }
}

impl<K: Object> ObjectWatch<K> {
    pub(crate) fn new(private: PrivateCache<K>) -> Result<Self, Error> {
        let PrivateCache { cache, reads, run } = private;
        let subscriptions = reads.informers()?.into_iter().map(|i| i.subscribe());
        let subscriptions: Vec<Subscription<K>> = subscriptions.collect();
        let events = stream::select_all(subscriptions.into_iter().map(deliveries));
        let stream = stream::unfold(Some((run, events)), |running| async move {
            let (mut run, mut events) = running?;
            tokio::select! {
                // Deliveries are polled before the end of the cache, so that every delivery before the end is returned.
                biased;
                Some(delivery) = events.next() => Some((Ok(delivery), Some((run, events)))),
                ended = &mut run => Some((Err(ended.err()?.into()), None)),
            }
        });
        let stream = stream.boxed();
        Ok(Self { cache, stream })
    }
}

impl<K> ObjectWatch<K> {
    /// Waits for the next delivery. An error ends the watch; after it, returns `None`.
    ///
    /// # Errors
    ///
    /// The error that ended the watch: see [`ObjectWatch`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no delivery.
    pub async fn next(&mut self) -> Option<Result<Delivery<K>, Error>> {
        self.stream.next().await
    }

    /// Returns the reasons, with remedies, why the watch does not follow its server at the moment; empty otherwise.
    pub fn informer_failures(&self) -> Vec<InformerFailure> {
        self.cache.informer_failures()
    }
}

impl<K> Stream for ObjectWatch<K> {
    type Item = Result<Delivery<K>, Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Delivery<K>, Error>>> {
        self.stream.poll_next_unpin(context)
    }
}

fn deliveries<K: Object>(subscription: Subscription<K>) -> BoxStream<'static, Delivery<K>> {
    let next = |mut subscription: Subscription<K>| async move {
        let delivery = subscription.next().await?;
        Some((delivery, subscription))
    };
    stream::unfold(subscription, next).boxed()
}
