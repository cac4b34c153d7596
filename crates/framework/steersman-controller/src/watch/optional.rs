//! Driver: a watch of an optional kind: it begins when the server serves the kind, and ends when the server serves the
//! kind no more.

use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use steersman_cache::internal::{CacheInternals as _, HeldInformers, NamespacedInformer};
use steersman_cache::{Cache, InformerState};
use steersman_client::Client;
use steersman_informer::{Certainty, Delivery, Event, Informer, Reason, Subscription};
use steersman_object::{Jitter, Kind, Object, report};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::handler::target::ControllerTarget;
use crate::request::RequestKey;
use crate::watch::followed_namespaces::FollowedNamespaces;
use crate::watch::{AnySource, EventRoute, PumpEnd, Sink};

/// The time between two questions to the server whether it serves the kind, before jitter.
const PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct OptionalWatch<K: Object, P: ControllerTarget>(pub(crate) EventRoute<K, P>);

struct ServedKind {
    kind: Kind,
    client: Client,
    controller: String,
    jitter: Jitter,
}

enum OptionalEnd {
    NotServed,
    InformerRemoved,
    CacheStopped,
}

struct OptionalEvents<K: Object, P: ControllerTarget> {
    route: Arc<EventRoute<K, P>>,
    sink: Sink<P::Key>,
    /// Fires when the watch is removed from its set (SRC-5); never for a watch that the builder declared.
    removed: CancellationToken,
}

impl<K: Object, P: ControllerTarget> AnySource<P::Key> for OptionalWatch<K, P> {
    fn watched_kind(&self) -> Option<&Kind> {
        Some(self.0.kind())
    }

    fn run(self: Box<Self>, cache: Cache, sink: Sink<P::Key>) -> BoxFuture<'static, PumpEnd> {
        let removed = CancellationToken::new();
        Box::pin(follow_kind(Arc::new(self.0), cache, sink, removed))
    }
}

/// Watches a kind whenever the server serves it, until the cache stops. After `removed` fires, the handler is not
/// called again.
pub(crate) async fn follow_kind<K: Object, P: ControllerTarget>(
    route: Arc<EventRoute<K, P>>,
    cache: Cache,
    sink: Sink<P::Key>,
    removed: CancellationToken,
) -> PumpEnd {
    sink.metrics.watches(route.kind());
    let mut served = ServedKind::new(route.kind(), &sink);
    let events = OptionalEvents {
        route,
        sink,
        removed,
    };
    loop {
        served.begin().await;
        let end = watch_while_served(&events, &cache, &mut served).await;
        served.log_end(&end);
        if !matches!(end, OptionalEnd::NotServed) {
            return PumpEnd::Finished;
        }
    }
}

/// Watches a kind until the server no longer serves it. Objects that the cache still holds are then handled as deleted,
/// so that their owners and other related objects are requested (SRC-4).
async fn watch_while_served<K: Object, P: ControllerTarget>(
    events: &OptionalEvents<K, P>,
    cache: &Cache,
    served: &mut ServedKind,
) -> OptionalEnd {
    let mut changes = cache.scope_changes();
    let gone = CancellationToken::new();
    let mut pumps = FuturesUnordered::new();
    let mut namespaces = FollowedNamespaces::default();
    let held = loop {
        let Ok(held) = cache.hold(&served.kind) else {
            return OptionalEnd::CacheStopped;
        };
        for informer in namespaces.begin(held.informers()) {
            let pump = events.pump(informer.subscribe(), &gone);
            pumps.push(pump.map(|()| informer));
        }
        tokio::select! {
            biased;
            () = served.end(&held) => break held,
            // CTRL-42: a namespace was added to the cache, or removed from it. The loop begins the watches of added
            // namespaces.
            _ = changes.changed() => {}
            Some(informer) = pumps.next() => if !namespaces.end(&informer) {
                return match informer.was_removed() {
                    true => OptionalEnd::InformerRemoved,
                    false => OptionalEnd::CacheStopped,
                };
            },
        }
    };
    gone.cancel();
    while pumps.next().await.is_some() {}
    // SRC-4: the objects that the cache still holds count as deleted, except objects of a namespace that was removed
    // from the cache: they still exist (CTRL-42).
    for informer in held
        .informers()
        .filter(|informer| !informer.has_left_scope())
    {
        for entry in informer.informer().as_store().entries(None) {
            let event = Event::deleted(entry, Certainty::FinalStateUnknown);
            events.handle(&event).await;
        }
    }
    held.end();
    OptionalEnd::NotServed
}

// === impl OptionalEvents ===

impl<K: Object, P: ControllerTarget> OptionalEvents<K, P> {
    /// Handles the events of one subscription until its informer ends, or `gone` fires and no event waits any more.
    async fn pump(&self, mut subscription: Subscription<K>, gone: &CancellationToken) {
        loop {
            let is_empty = subscription.waiting() == 0;
            let delivery = tokio::select! {
                biased;
                delivery = subscription.next() => delivery,
                () = gone.cancelled(), if is_empty => return,
            };
            match delivery {
                Some(Delivery::Event(event)) => self.handle(&event).await,
                Some(_) => {}
                None => return,
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn handle(&self, event: &Event<K>) {
        // SRC-5: a removed watch handles no event, even if events of its subscription were waiting when it was removed.
        if !self.removed.is_cancelled() {
            self.sink.handle(&self.route, event).await;
        }
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

    fn log_end(&self, end: &OptionalEnd) {
        let (controller, kind) = (&self.controller, &self.kind);
        match end {
            OptionalEnd::NotServed => tracing::info!(
                controller, %kind,
                "the server serves an optional kind no more: its watch ends, and begins again once its definition \
                 is installed"
            ),
            OptionalEnd::InformerRemoved => tracing::warn!(
                controller, %kind,
                "the informer of an optional kind was removed from the cache: its watch has ended, and changes of \
                 its objects cause no run until the controller starts again"
            ),
            OptionalEnd::CacheStopped => tracing::debug!(
                controller, %kind,
                "the cache has stopped: the watch of an optional kind ends"
            ),
        }
    }

    /// Waits until the server serves the kind. Asks again about every 30 s, also if the server did not answer.
    async fn begin(&mut self) {
        let mut is_missing = false;
        loop {
            match self.is_served().await {
                Some(true) => break,
                Some(false) if !is_missing => {
                    is_missing = true;
                    tracing::info!(
                        controller = self.controller,
                        kind = %self.kind,
                        "the server does not serve an optional kind: the controller works without it, and watches \
                         it once its definition is installed"
                    );
                }
                Some(false) | None => {}
            }
            self.pause().await;
        }
        if is_missing {
            tracing::info!(
                controller = self.controller,
                kind = %self.kind,
                "the server serves an optional kind: its watch begins"
            );
        }
    }

    /// Waits until an informer fails because the kind is not served, and the server confirms that. Without an answer of
    /// the server, the wait goes on.
    async fn end<K: Object>(&mut self, held: &HeldInformers<K>) {
        loop {
            // `select_all` panics without futures, but a kind has at least one informer.
            let informers = held.informers().map(NamespacedInformer::informer);
            select_all(informers.map(|informer| not_served(informer).boxed())).await;
            if self.is_served().await == Some(false) {
                return;
            }
            self.pause().await;
        }
    }

    /// Asks the server whether it serves the kind; `None` if the server does not answer.
    async fn is_served(&self) -> Option<bool> {
        let mapper = self.client.mapper();
        // The mapper forgets its cached discovery document, so that it asks the server instead of finding the kind in
        // the document.
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

    /// Waits until the next question to the server: [`PAUSE`], shortened or lengthened by up to a tenth.
    async fn pause(&mut self) {
        sleep(self.jitter.about(PAUSE)).await;
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
        // The informer has ended. The task that reads its subscription notices that, so this future never resolves.
        pending::<()>().await;
    }
}
