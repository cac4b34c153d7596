//! Driver: the route of an event: the predicate and the handler of a watch, and the requests that the event causes.

mod handling;
mod awaiting;
pub(crate) mod declared;
pub(crate) mod followed_namespaces;
pub(crate) mod optional;
pub(crate) mod in_clusters;
pub(crate) mod added;

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use steersman_cache::{Cache, Error};
use steersman_client::Client;
use steersman_informer::{Event, Origin};
use steersman_object::{Kind, Object};
use steersman_workqueue::{AddOptions, Priority, Queue};

use crate::context::changes::PendingChanges;
use crate::context::event_journal::EventJournal;
use crate::context::loop_watch::LoopWatch;
use crate::handler::target::ControllerTarget;
use crate::handler::{EventHandler, Requests};
use crate::metrics::Metrics;
use crate::metrics::sources::SourceMetrics;
use crate::predicate::{EventSummary, Everything, Predicate, add_predicate};
use crate::request::{ClusterName, RequestKey};
use crate::status::ControllerStatus;
use crate::watch::in_clusters::AnyClusterWatch;

pub(crate) type EventFilter = Arc<dyn Fn(&EventSummary<'_>) -> bool + Send + Sync>;

/// The route of the events of a watch: the predicate that an event must pass, and the handler that turns it into
/// requests.
pub(crate) struct EventRoute<K: Object, P: ControllerTarget> {
    kind: Kind,
    predicate: Arc<dyn Predicate<K>>,
    pub(crate) handler: Arc<dyn EventHandler<K, P>>,
}

/// The sources of a controller's requests, each list in the order of the declarations.
#[expect(
    unnameable_types,
    missing_debug_implementations,
    reason = "part of a sealed trait, which only this crate calls"
)]
pub struct Sources<R: RequestKey> {
    /// The watches of kinds that must have synced before the workers start. The watch of the primary kind is the first.
    pub(crate) watches: Vec<Box<dyn AnyWatch<R>>>,
    pub(crate) cluster_watches: Vec<Arc<dyn AnyClusterWatch<R>>>,
    /// The sources that the workers do not wait for: optional watches, sets, informers, channels, streams, intervals
    /// and polls.
    pub(crate) others: Vec<Box<dyn AnySource<R>>>,
    pub(crate) owned: Vec<Kind>,
}

/// A watch of a kind, without the Rust type of the objects. The workers wait for the first sync of the kind.
pub(crate) trait AnyWatch<R: RequestKey>: Send {
    fn kind(&self) -> &Kind;

    fn declare(&self, cache: &Cache) -> Result<(), Error>;

    /// Subscribes to the kind, and returns one task per subscription to read its events.
    fn start(self: Box<Self>, cache: &Cache, sink: &Sink<R>) -> Result<Vec<Pump>, Error>;
}

/// The destination of the events of one watch or other source: the queue for the requests, and the status, the metrics
/// and the tables that record changes and failures.
#[derive(Clone)]
pub(crate) struct Sink<R: RequestKey> {
    pub(crate) queue: Queue<R>,
    pub(crate) changes: PendingChanges<R>,
    pub(crate) loops: Arc<LoopWatch>,
    pub(crate) journal: Option<EventJournal<R>>,
    pub(crate) event_filter: Option<EventFilter>,
    pub(crate) status: ControllerStatus,
    pub(crate) metrics: Metrics,
    pub(crate) source_metrics: SourceMetrics,
    /// The client for asynchronous handlers: the client of the controller or, for a watch of another cluster, of that
    /// cluster.
    pub(crate) client: Client,
    /// The priority of requests that initial lists and resyncs cause.
    pub(crate) initial_priority: Priority,
    /// The position of the watch or source among the sources of the controller, from 0.
    pub(crate) watch: usize,
    /// The cluster of the watch; `None` for the manager's own cluster.
    pub(crate) cluster: Option<ClusterName>,
}

/// A source of requests that its controller does not wait for at the start.
///
/// `run` returns a boxed future, because an `async fn` of async-trait takes rustc a second per implementation
/// (docs/decisions/0041-a-newcomer-waits-for-little.md).
pub(crate) trait AnySource<R: RequestKey>: Send {
    fn watched_kind(&self) -> Option<&Kind> {
        None
    }

    fn run(self: Box<Self>, cache: Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd>;
}

pub(crate) struct Pump {
    /// Resolves when the requests of all initial objects are in the queue.
    pub(crate) synced: oneshot::Receiver<()>,
    pub(crate) run: BoxFuture<'static, PumpEnd>,
}

#[derive(Debug)]
pub(crate) enum PumpEnd {
    /// The source has ended without a failure: a stream of requests, or another source that may end while the
    /// controller runs.
    Finished,
    Stopped {
        kind: Kind,
    },
    /// A stream of requests panicked, so it cannot be polled again.
    StreamPanicked {
        message: String,
    },
}

// === impl EventRoute ===

impl<K: Object, P: ControllerTarget> EventRoute<K, P> {
    /// Makes a route without a predicate: every event of the kind reaches the handler, with objects decoded as `K`.
    pub(crate) fn new(kind: Kind, handler: impl EventHandler<K, P>) -> Self {
        Self::filtered(kind, Arc::new(Everything), handler)
    }

    pub(crate) fn filtered(
        kind: Kind,
        predicate: Arc<dyn Predicate<K>>,
        handler: impl EventHandler<K, P>,
    ) -> Self {
        Self {
            kind,
            predicate,
            handler: Arc::new(handler),
        }
    }

    /// Adds a predicate. An event must pass this predicate and all predicates that were added before.
    pub(crate) fn filter(&mut self, predicate: impl Predicate<K>) {
        add_predicate(&mut self.predicate, predicate);
    }

    pub(crate) fn map_handler<Q: ControllerTarget, H: EventHandler<K, Q>>(
        &self,
        change: impl FnOnce(Arc<dyn EventHandler<K, P>>) -> H,
    ) -> EventRoute<K, Q> {
        EventRoute {
            kind: self.kind.clone(),
            predicate: Arc::clone(&self.predicate),
            handler: Arc::new(change(Arc::clone(&self.handler))),
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Adds the requests that an event causes to `requests`, the list that [`requests_of`] made for the event, and
    /// returns whether the event passes. Calls closures of the user, so it may panic (CTRL-6).
    pub(crate) fn route(
        &self,
        event: &Event<K>,
        event_filter: Option<&EventFilter>,
        requests: &mut Requests<P::Key>,
    ) -> bool {
        let passes = event_filter.is_none_or(|filter| filter(&self.summary(event)));
        let passes = passes && self.predicate.passes(event);
        if passes {
            self.handler.handle(event, requests);
        }
        passes
    }

    fn summary<'a>(&'a self, event: &'a Event<K>) -> EventSummary<'a> {
        EventSummary {
            kind: &self.kind,
            key: event.key(),
            labels: event.entry().labels(),
            is_delete: event.is_delete(),
            origin: event.origin(),
        }
    }
}

// === impl Sources ===

impl<R: RequestKey> Sources<R> {
    /// Returns whether no source could ever cause a request.
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty() && self.cluster_watches.is_empty() && self.others.is_empty()
    }

    /// Returns the kinds that must have synced before the workers start, in the order of the watches.
    pub(crate) fn watch_kinds(&self) -> Vec<Kind> {
        let kinds = self.watches.iter().map(|watch| watch.kind().clone());
        kinds.collect()
    }
}

impl<R: RequestKey> Default for Sources<R> {
    fn default() -> Self {
        Self {
            watches: Vec::new(),
            cluster_watches: Vec::new(),
            others: Vec::new(),
            owned: Vec::new(),
        }
    }
}

/// Makes an empty list for the requests of an event, with the priority that fits the event.
///
/// Requests of an initial list or a resync have low priority, so that the requests of live events go first. A delete
/// never has low priority (CTRL-5).
pub(crate) fn requests_of<K: Object, R: RequestKey>(
    event: &Event<K>,
    initial_priority: Priority,
) -> Requests<R> {
    let can_wait = match (event.old(), event.current()) {
        (_, None) => false,
        (None, Some(_)) => event.origin() == Origin::Initial,
        (Some(_), Some(_)) => event.origin() == Origin::Resync || event.is_resync(),
    };
    let options = AddOptions::new();
    Requests::with_defaults(match can_wait {
        true => options.priority(initial_priority),
        false => options,
    })
}

#[cfg(test)]
mod tests;
