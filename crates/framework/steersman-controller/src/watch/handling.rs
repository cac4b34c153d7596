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

impl<R: RequestKey> Sink<R> {
    /// Adds the requests that an event causes to the queue. Returns when the event is handled, also by a
    /// handler that waits, so that the events of a watch are handled in their order.
    ///
    /// CTRL-6: a panic or an error loses this event alone. The author of a closure is responsible for its state after a
    /// panic.
    pub(crate) async fn handle<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
    ) {
        self.handle_caused(route, event, cause_of(event)).await;
    }

    /// Handles an event like [`handle`](Self::handle), with `cause` as the cause of its requests.
    pub(crate) async fn handle_caused<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        cause: Causes,
    ) {
        let mut requests = requests_of(event, self.initial_priority);
        let defaults = requests.defaults();
        let pass = || route.route(event, self.event_filter.as_ref(), &mut requests);
        let routed = catch_unwind(AssertUnwindSafe(pass));
        // After a panic, `requests` holds the requests that the handler added before it.
        self.add(route, event, cause, &mut requests);
        match routed {
            Ok(true) => self.handle_async(route, event, cause, defaults).await,
            Ok(false) => {}
            Err(payload) => self.panicked(route, event, &*payload),
        }
    }

    async fn handle_async<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        cause: Causes,
        defaults: AddOptions,
    ) {
        for attempt in 0.. {
            let requests = Requests::with_defaults(defaults);
            let begin = || route.handler.handle_async(event, &self.client, requests);
            let ended = match catch_unwind(AssertUnwindSafe(begin)) {
                Ok(None) => return,
                Ok(Some(handling)) => AssertUnwindSafe(handling).catch_unwind().await,
                Err(payload) => Err(payload),
            };
            let error = match ended {
                Ok(Ok(mut requests)) => return self.add(route, event, cause, &mut requests),
                Ok(Err(error)) => error,
                Err(payload) => return self.panicked(route, event, &*payload),
            };
            // CTRL-43: after a read that failed because a kind has not synced, the handler is called again after the
            // sync.
            match self.awaited_by(&error) {
                Some(unsynced) => self.wait_for(route, event, &unsynced, attempt).await,
                None => return self.failed(route, event, &error),
            }
        }
    }

    fn add<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        cause: Causes,
        requests: &mut Requests<R>,
    ) {
        if cause == EVENT && requests.iter().next().is_some() {
            // The detector of loops knows only writes in the manager's own cluster.
            if self.cluster.is_none() {
                self.loops.observe(route.kind(), event);
            }
            // CTRL-20: recorded before the request is added, so that the run of the request finds it.
            let changed = ChangedObject::of(route.kind(), self.cluster.as_ref(), event);
            self.changes.record(requests.iter(), &Arc::new(changed));
        }
        for (request, options) in requests.drain() {
            self.queue.add_with(request, options.cause(cause));
        }
    }

    /// Logs and counts a panic of a predicate, handler or filter, and records it in the status.
    fn panicked<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        payload: &(dyn Any + Send),
    ) {
        let panic = self.failure(route, event, panic_text(payload).to_owned());
        self.metrics.handler_panicked(&panic.kind);
        tracing::error!(
            controller = self.status.controller(),
            watch = self.watch,
            kind = %panic.kind,
            cluster = panic.cluster.as_ref().map(ClusterName::as_str),
            object = %panic.key,
            panic = %panic.message,
            "a predicate, handler or filter panicked and the event is lost: correct the closure; \
             other events go on"
        );
        self.status.handler_panicked(panic);
    }

    /// Logs and counts an error of a handler, and records it in the status.
    fn failed<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        error: &Error,
    ) {
        let error = self.failure(route, event, error.chain());
        self.source_metrics.handler_failed(&error.kind);
        tracing::error!(
            controller = self.status.controller(),
            watch = self.watch,
            kind = %error.kind,
            cluster = error.cluster.as_ref().map(ClusterName::as_str),
            object = %error.key,
            error = %error.message,
            "a handler failed and the event is lost: let its function repeat what may fail for a moment; \
             other events go on"
        );
        self.status.handler_failed(error);
    }

    fn failure<K: Object, P: ControllerTarget<Key = R>>(
        &self,
        route: &EventRoute<K, P>,
        event: &Event<K>,
        message: String,
    ) -> HandlerFailure {
        HandlerFailure {
            kind: route.kind().clone(),
            watch: self.watch,
            cluster: self.cluster.clone(),
            key: event.key().clone(),
            message,
        }
    }
}
