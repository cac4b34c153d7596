//! Driver: a watch of a kind that need not be served: it begins when the server serves the kind, and ends
//! when the server serves the kind no more.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use steersman_cache::Cache;
use steersman_cache::InformerState;
use steersman_cache::internal::{CacheInternals as _, HeldInformers};
use steersman_client::Client;
use steersman_informer::{Certainty, Delivery, Event, Informer, Reason, Subscription};
use steersman_object::{Jitter, Kind, Object, report};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::request::RequestKey;
use crate::watch::{AnySource, PumpEnd, Sink, Watch};

/// The pause between two questions whether the server serves the kind, before jitter.
const PAUSE: Duration = Duration::from_secs(30);

/// A watch that its controller does not wait for.
pub(crate) struct OptionalWatch<K: Object, R: RequestKey> {
    watch: Arc<Watch<K, R>>,
}

/// Asks the server whether it serves a kind.
struct ServedKind {
    kind: Kind,
    client: Client,
    controller: String,
    jitter: Jitter,
}

/// Why a watch of a kind that was served ended.
enum OptionalEnd {
    /// The server serves the kind no more.
    NotServed,
    /// The cache has stopped, or refuses the kind.
    NotCached,
}

impl<K: Object, R: RequestKey> OptionalWatch<K, R> {
    pub(crate) fn new(watch: Watch<K, R>) -> Self {
        Self {
            watch: Arc::new(watch),
        }
    }
}

impl<K: Object, R: RequestKey> AnySource<R> for OptionalWatch<K, R> {
    fn run(self: Box<Self>, cache: &Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        follow_kind(self.watch, cache.clone(), sink).boxed()
    }
}

/// Watches a kind whenever the server serves it, until the cache stops.
pub(crate) async fn follow_kind<K: Object, R: RequestKey>(
    watch: Arc<Watch<K, R>>,
    cache: Cache,
    sink: Sink<R>,
) -> PumpEnd {
    sink.metrics.watches(watch.kind());
    let mut served = ServedKind::new(watch.kind(), &sink);
    loop {
        served.begin().await;
        match watch_while_served(&watch, &cache, &sink, &mut served).await {
            OptionalEnd::NotServed => tracing::info!(
                controller = served.controller,
                kind = %served.kind,
                "the server serves an optional kind no more: its watch ends"
            ),
            OptionalEnd::NotCached => return PumpEnd::Finished,
        }
    }
}

/// Watches a kind until the server serves it no more. Objects that disappeared unseen are handled as deleted,
/// so that the objects that refer to them are requested (SRC-4).
async fn watch_while_served<K: Object, R: RequestKey>(
    watch: &Watch<K, R>,
    cache: &Cache,
    sink: &Sink<R>,
    served: &mut ServedKind,
) -> OptionalEnd {
    let mut changes = cache.scope_changes();
    let gone = CancellationToken::new();
    let mut pumps = FuturesUnordered::new();
    // The namespaces with a pump, each with the number of its removals before.
    let mut subscribed = BTreeMap::new();
    let held = loop {
        let held: HeldInformers<K> = match cache.hold(&served.kind) {
            Ok(held) => held,
            Err(error) => return served.not_cached(&error),
        };
        for (namespace, informer) in held.by_namespace() {
            if let Entry::Vacant(vacant) = subscribed.entry(namespace.clone()) {
                let (namespace, removals) =
                    (namespace.clone(), cache.removals_of(namespace.as_deref()));
                let pump = pump(informer.subscribe(), watch, sink, &gone);
                pumps.push(pump.map(move |()| namespace));
                vacant.insert(removals);
            }
        }
        tokio::select! {
            () = served.end(&held) => break held,
            // CTRL-42: a namespace was added to the cache, or removed from it.
            _ = changes.changed() => {}
            Some(namespace) = pumps.next() => {
                let before = subscribed.remove(&namespace);
                if before == Some(cache.removals_of(namespace.as_deref())) {
                    return OptionalEnd::NotCached;
                }
            }
        }
    };
    gone.cancel();
    while pumps.next().await.is_some() {}
    // SRC-4
    for informer in held.informers() {
        for entry in informer.as_store().entries(None) {
            let event = Event::deleted(entry, Certainty::FinalStateUnknown);
            sink.handle(watch, &event).await;
        }
    }
    held.end();
    OptionalEnd::NotServed
}

/// Handles the events of one subscription until its informer stops, or `gone` fires and no delivery waits.
async fn pump<K: Object, R: RequestKey>(
    mut subscription: Subscription<K>,
    watch: &Watch<K, R>,
    sink: &Sink<R>,
    gone: &CancellationToken,
) {
    loop {
        let is_empty = subscription.waiting() == 0;
        let delivery = tokio::select! {
            biased;
            delivery = subscription.next() => delivery,
            () = gone.cancelled(), if is_empty => return,
        };
        match delivery {
            Some(Delivery::Event(event)) => sink.handle(watch, &event).await,
            Some(_) => {}
            None => return,
        }
        tokio::task::coop::consume_budget().await;
    }
}

// === impl ServedKind ===

impl ServedKind {
    fn new<R: RequestKey>(kind: &Kind, sink: &Sink<R>) -> Self {
        Self {
            kind: kind.clone(),
            client: sink.client.clone(),
            controller: sink.status.controller().to_owned(),
            jitter: Jitter::new(RandomState::new().hash_one(kind.gvk())),
        }
    }

    /// Logs that the cache does not watch the kind.
    fn not_cached(&self, error: &steersman_cache::Error) -> OptionalEnd {
        tracing::debug!(
            controller = self.controller,
            kind = %self.kind,
            error = %report(error),
            "the cache does not watch the optional kind"
        );
        OptionalEnd::NotCached
    }

    /// Waits until the server serves the kind.
    async fn begin(&mut self) {
        let mut is_logged = false;
        while self.is_served().await != Some(true) {
            if !is_logged {
                is_logged = true;
                tracing::info!(
                    controller = self.controller,
                    kind = %self.kind,
                    "the server does not serve an optional kind: the controller works without it, and watches it \
                     once its definition is installed"
                );
            }
            self.pause().await;
        }
        if is_logged {
            tracing::info!(
                controller = self.controller,
                kind = %self.kind,
                "the server serves an optional kind: its watch begins"
            );
        }
    }

    /// Waits until the informers of the kind fail because the server serves it no more, and the server confirms
    /// this. A server that cannot be asked confirms nothing.
    async fn end<K: Object>(&mut self, held: &HeldInformers<K>) {
        loop {
            select_all(
                held.informers()
                    .map(|informer| not_served(informer).boxed()),
            )
            .await;
            if self.is_served().await == Some(false) {
                return;
            }
            self.pause().await;
        }
    }

    /// Asks the server; `None` if it does not answer.
    async fn is_served(&self) -> Option<bool> {
        let mapper = self.client.mapper();
        // The mapper keeps a document in which it found the kind.
        mapper.forget(self.kind.gvk().group());
        match mapper.served(self.kind.gvk()).await {
            Ok(_) => Some(true),
            Err(error) if error.is_kind_not_served() => Some(false),
            Err(error) => {
                tracing::debug!(
                    controller = self.controller, kind = %self.kind, error = %report(&error),
                    "the server did not say whether it serves an optional kind"
                );
                None
            }
        }
    }

    /// Waits for a pause, shortened or lengthened by up to a tenth.
    async fn pause(&mut self) {
        sleep(PAUSE.mul_f64(0.9 + self.jitter.fraction() / 5.0)).await;
    }
}

/// Waits until the requests of an informer fail because the server does not serve the kind.
async fn not_served<K: Object>(informer: &Informer<K>) {
    let is_not_served = |state: &InformerState| matches!(state, InformerState::Degraded { reason, .. } if *reason == Reason::NotServed);
    if informer
        .state_changes()
        .wait_for(is_not_served)
        .await
        .is_err()
    {
        // The informer has ended, which its subscription reports.
        pending::<()>().await;
    }
}
