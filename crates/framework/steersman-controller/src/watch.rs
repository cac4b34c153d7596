//! Machine: one watch: a kind, its predicate and its handler, and the requests that an event causes.

mod awaiting;
mod handling;
pub(crate) mod followed_namespaces;
pub(crate) mod in_clusters;
pub(crate) mod optional;
pub(crate) mod added;

use std::fmt;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use steersman_cache::{Cache, Error};
use steersman_client::Client;
use steersman_informer::{Event, Origin};
use steersman_object::{Kind, Object, TypedObject};
use steersman_workqueue::{AddOptions, Priority, Queue};

use crate::context::changes::PendingChanges;
use crate::context::loop_watch::LoopWatch;
use crate::handler::{EventHandler, HandlerFuture, Requests};
use crate::metrics::Metrics;
use crate::metrics::sources::SourceMetrics;
use crate::predicate::{EventSummary, Predicate};
use crate::request::ClusterName;
use crate::request::RequestKey;
use crate::status::ControllerStatus;

/// A filter over the events of all watches of one controller.
pub(crate) type FilterAll = Arc<dyn Fn(&EventSummary<'_>) -> bool + Send + Sync>;

/// A kind with its predicate and its handler.
pub(crate) struct Watch<K: Object, R: RequestKey> {
    kind: Kind,
    predicate: Box<dyn Predicate<K>>,
    handler: Box<dyn EventHandler<K, R>>,
}

/// A [`Watch`] of an erased kind.
pub(crate) trait AnyWatch<R: RequestKey>: Send {
    fn kind(&self) -> &Kind;

    /// Declares the kind in the cache.
    fn declare(&self, cache: &Cache) -> Result<(), Error>;

    /// Subscribes to the kind, and returns one task per subscription.
    fn start(self: Box<Self>, cache: &Cache, sink: &Sink<R>) -> Result<Vec<Pump>, Error>;
}

/// The queue for the requests of a watch, with the metrics and status that record its panics.
#[derive(Clone)]
pub(crate) struct Sink<R: RequestKey> {
    pub(crate) queue: Queue<R>,
    pub(crate) changes: PendingChanges<R>,
    pub(crate) loops: Arc<LoopWatch>,
    pub(crate) filter_all: Option<FilterAll>,
    pub(crate) status: ControllerStatus,
    pub(crate) metrics: Metrics,
    pub(crate) source_metrics: SourceMetrics,
    /// The client of handlers that wait: that of the controller, or of the cluster of the watch.
    pub(crate) client: Client,
    /// The priority of requests that initial lists and resyncs cause.
    pub(crate) initial_priority: Priority,
    /// The position of the watch or source among those of the controller, from 0.
    pub(crate) watch: usize,
    /// The cluster of the watch; `None` for that of the manager.
    pub(crate) cluster: Option<ClusterName>,
}

/// A source of requests that its controller does not wait for at the start.
pub(crate) trait AnySource<R: RequestKey>: Send {
    /// Returns the kind that the source watches in the cluster of the manager, if it does.
    fn watched_kind(&self) -> Option<&Kind> {
        None
    }

    /// Returns the task of the source.
    fn run(self: Box<Self>, cache: &Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd>;
}

/// The task of one subscription.
pub(crate) struct Pump {
    /// Resolves once the initial set is in the queue.
    pub(crate) synced: oneshot::Receiver<()>,
    pub(crate) run: BoxFuture<'static, PumpEnd>,
}

/// The reason why a pump ended.
#[derive(Debug)]
pub(crate) enum PumpEnd {
    /// A stream of requests or another source ended, which is not an error.
    Finished,
    /// The informer stopped.
    Stopped { kind: Kind },
    /// A stream of requests panicked, so it cannot be polled again.
    StreamPanicked { message: String },
}

// === impl Watch ===

impl<K: TypedObject, R: RequestKey> Watch<K, R> {
    pub(crate) fn new(predicate: Box<dyn Predicate<K>>, handler: impl EventHandler<K, R>) -> Self {
        Self::of(Kind::of::<K>(), predicate, handler)
    }
}

impl<K: Object, R: RequestKey> Watch<K, R> {
    /// Makes a watch of a kind that is a value, with its objects read as `K`s.
    pub(crate) fn of(
        kind: Kind,
        predicate: Box<dyn Predicate<K>>,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self {
            kind,
            predicate,
            handler: Box::new(handler),
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Declares what the handler reads.
    pub(crate) fn declare_reads(&self, cache: &Cache) -> Result<(), Error> {
        self.handler.declare(cache)
    }

    /// Adds the requests that an event causes to `requests`, which comes from [`requests_of`], and returns
    /// whether the event passes. Calls closures of the user, so it may panic (CTRL-6).
    pub(crate) fn route(
        &self,
        event: &Event<K>,
        filter_all: Option<&FilterAll>,
        requests: &mut Requests<R>,
    ) -> bool {
        let passes = filter_all.is_none_or(|filter| filter(&self.summary(event)));
        let passes = passes && self.predicate.passes(event);
        if passes {
            self.handler.handle(event, requests);
        }
        passes
    }

    /// Returns the part of the handling of a passing event that waits. Calls the handler of the user, so it
    /// may panic (CTRL-6).
    pub(crate) fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        requests: Requests<R>,
    ) -> Option<HandlerFuture<'a, R>> {
        self.handler.handle_async(event, client, requests)
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

impl<K: Object, R: RequestKey> fmt::Debug for Watch<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Makes an empty list of requests with the options that fit the event.
pub(crate) fn requests_of<K: Object, R: RequestKey>(
    event: &Event<K>,
    initial_priority: Priority,
) -> Requests<R> {
    Requests::with_defaults(options(event, initial_priority))
}

// Events of a start or a resync can wait for live ones. A delete is never of low priority (CTRL-5).
fn options<K: Object>(event: &Event<K>, initial_priority: Priority) -> AddOptions {
    let can_wait = match (event.old(), event.current()) {
        (_, None) => false,
        (None, Some(_)) => event.origin() == Origin::Initial,
        (Some(_), Some(_)) => event.origin() == Origin::Resync || event.is_resync(),
    };
    if can_wait {
        AddOptions::new().priority(initial_priority)
    } else {
        AddOptions::new()
    }
}

#[cfg(test)]
mod tests;
