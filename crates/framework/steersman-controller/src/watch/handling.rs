//! Driver: one event of a watch: predicate, handler, and the requests for the queue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::future::FutureExt;
use steersman_informer::Event;
use steersman_object::{Object, panic_text};
use steersman_workqueue::{AddOptions, Causes};

use crate::context::reason::{ChangedObject, EVENT, cause_of};
use crate::error::Error;
use crate::handler::Requests;
use crate::handler::target::ControllerTarget;
use crate::request::{ClusterName, RequestKey};
use crate::status::HandlerFailure;
use crate::watch::{EventRoute, Sink, requests_of};

/// An event of a watch, with the route and the sink that handle it.
pub(crate) struct HandledEvent<'a, K: Object, P: ControllerTarget> {
    pub(crate) sink: &'a Sink<P::Key>,
    pub(crate) route: &'a EventRoute<K, P>,
    pub(crate) event: &'a Event<K>,
    cause: Causes,
}

impl<R: RequestKey> Sink<R> {
    /// Adds the requests that an event causes to the queue. Returns when the event is handled, also by a
    /// handler that waits, so that the events of a watch are handled in their order.
    ///
    /// CTRL-6: a panic or an error loses this event alone. The author of a closure is responsible for its state after a
    /// panic, so `AssertUnwindSafe` is used.
    pub(crate) async fn handle<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
    ) {
        self.handle_caused(route, event, cause_of(event)).await;
    }

    /// Handles an event as [`handle`](Self::handle) does, but gives its requests the cause `cause`. The origin of the
    /// event would give another cause: an object of a channel counts as a live event.
    pub(crate) async fn handle_caused<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        cause: Causes,
    ) {
        let handled = HandledEvent {
            sink: self,
            route,
            event,
            cause,
        };
        handled.handle().await;
    }
}

impl<K: Object, P: ControllerTarget> HandledEvent<'_, K, P> {
    async fn handle(&self) {
        let mut requests = requests_of(self.event, self.sink.initial_priority);
        let defaults = requests.defaults();
        let filter = self.sink.event_filter.as_ref();
        let pass = || self.route.route(self.event, filter, &mut requests);
        let routed = catch_unwind(AssertUnwindSafe(pass));
        // After a panic, `requests` holds the requests that the handler added before the panic.
        self.add(&mut requests);
        match routed {
            Ok(true) => self.handle_async(defaults).await,
            Ok(false) => {}
            Err(payload) => self.panicked(&*payload),
        }
    }

    async fn handle_async(&self, defaults: AddOptions) {
        let (handler, client) = (&self.route.handler, &self.sink.client);
        for attempt in 0.. {
            let requests = Requests::with_defaults(defaults);
            let begin = || handler.handle_async(self.event, client, requests);
            let ended = match catch_unwind(AssertUnwindSafe(begin)) {
                Ok(None) => return,
                Ok(Some(handling)) => AssertUnwindSafe(handling).catch_unwind().await,
                Err(payload) => Err(payload),
            };
            let error = match ended {
                Ok(Ok(mut requests)) => return self.add(&mut requests),
                Ok(Err(error)) => error,
                Err(payload) => return self.panicked(&*payload),
            };
            // CTRL-43: if the handler read a kind that has not synced, it is called again after the sync.
            match self.sink.awaited_by(&error) {
                Some(unsynced) => self.wait_for(&unsynced, attempt).await,
                None => return self.failed(&error),
            }
        }
    }

    fn add(&self, requests: &mut Requests<P::Key>) {
        let Self { sink, cause, .. } = self;
        let (is_live, has_requests) = (*cause == EVENT, requests.iter().next().is_some());
        let journal = sink.journal.as_ref().filter(|_| is_live);
        let changed = (is_live && has_requests || journal.is_some()).then(|| {
            let (kind, cluster) = (self.route.kind(), sink.cluster.as_ref());
            Arc::new(ChangedObject::of(kind, cluster, self.event))
        });
        if let Some((journal, changed)) = journal.zip(changed.as_ref()) {
            journal.note(Arc::clone(changed), requests.iter());
        }
        if let Some(changed) = changed.filter(|_| has_requests) {
            // The detector of requests that trigger themselves knows only writes in the manager's own cluster.
            if sink.cluster.is_none() {
                sink.loops.observe(self.route.kind(), self.event);
            }
            // CTRL-20: the change is recorded before its request is added, so that the run of the request finds the
            // change.
            sink.changes.record(requests.iter(), &changed);
        }
        for (request, options) in requests.drain() {
            sink.queue.add_with(request, options.cause(*cause));
        }
    }

    /// Logs and counts a panic of a predicate, handler or filter, and records it in the status.
    fn panicked(&self, payload: &(dyn Any + Send)) {
        let panic = self.failure(panic_text(payload).to_owned());
        self.sink.metrics.handler_panicked(&panic.kind);
        tracing::error!(
            controller = self.sink.status.controller(),
            watch = panic.watch,
            kind = %panic.kind,
            cluster = panic.cluster.as_ref().map(ClusterName::as_str),
            object = %panic.key,
            panic = %panic.message,
            "a predicate, handler or filter panicked and the event is lost: correct the closure; \
            other events go on"
        );
        self.sink.status.handler_panicked(panic);
    }

    /// Logs and counts an error of a handler, and records it in the status.
    fn failed(&self, error: &Error) {
        let error = self.failure(error.chain());
        self.sink.source_metrics.handler_failed(&error.kind);
        tracing::error!(
            controller = self.sink.status.controller(),
            watch = error.watch,
            kind = %error.kind,
            cluster = error.cluster.as_ref().map(ClusterName::as_str),
            object = %error.key,
            error = %error.message,
            "a handler failed and the event is lost: let its function repeat what may fail for a moment; \
            other events go on"
        );
        self.sink.status.handler_failed(error);
    }

    fn failure(&self, message: String) -> HandlerFailure {
        HandlerFailure {
            kind: self.route.kind().clone(),
            watch: self.sink.watch,
            cluster: self.sink.cluster.clone(),
            key: self.event.key().clone(),
            message,
        }
    }
}
