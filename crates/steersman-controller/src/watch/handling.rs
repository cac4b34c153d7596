//! Driver: one event of a watch: predicate, handler, and the requests for the queue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use steersman_informer::Event;
use steersman_object::{Object, panic_text};

use crate::handler::Requests;
use crate::request::{ClusterName, RequestKey};
use crate::status::HandlerPanic;
use crate::watch::{Sink, Watch, requests_of};

impl<R: RequestKey> Sink<R> {
    /// Adds the requests that an event causes to the queue.
    pub(crate) fn handle<K: Object>(&self, watch: &Watch<K, R>, event: &Event<K>) {
        let mut requests = requests_of(event, self.initial_priority);
        let route = || watch.route(event, self.filter_all.as_ref(), &mut requests);
        // CTRL-6: a panic loses this event. The author of the closures is responsible for their state,
        // as after an early return.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(route)) {
            self.panicked(watch, event, &*payload);
        }
        // After a panic these are the requests that the handler had added before it.
        self.add(&mut requests);
    }

    fn add(&self, requests: &mut Requests<R>) {
        for (request, options) in requests.drain() {
            self.queue.add_with(request, options);
        }
    }

    /// Logs and counts a panic of a predicate, handler or filter, and records it in the status.
    fn panicked<K: Object>(
        &self,
        watch: &Watch<K, R>,
        event: &Event<K>,
        payload: &(dyn Any + Send),
    ) {
        let panic = HandlerPanic {
            kind: watch.kind().clone(),
            watch: self.watch,
            cluster: self.cluster.clone(),
            key: event.key().clone(),
            message: panic_text(payload).to_owned(),
        };
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
}
