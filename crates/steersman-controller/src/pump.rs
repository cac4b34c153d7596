//! Driver: the wiring of one watch: subscription, predicate, handler, queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::FutureExt;
use steersman_cache::{Cache, Error};
use steersman_informer::{Delivery, Event, Subscription};
use steersman_object::{Kind, Object, TypedObject, panic_text};

use crate::context::reason::{ChangedObject, EVENT, cause_of};
use crate::handler::Requests;
use crate::request::ClusterName;
use crate::request::RequestKey;
use crate::source::subscribe;
use crate::status::HandlerPanic;
use crate::watch::{AnyWatch, Pump, PumpEnd, Sink, Watch, requests_of};

impl<K: TypedObject, R: RequestKey> AnyWatch<R> for Watch<K, R> {
    fn kind(&self) -> &Kind {
        self.kind()
    }

    fn declare(&self, cache: &Cache) -> Result<(), Error> {
        cache.informers::<K>().map(drop)
    }

    fn start(self: Box<Self>, cache: &Cache, sink: &Sink<R>) -> Result<Vec<Pump>, Error> {
        let watch: Arc<Self> = Arc::from(self);
        let pump_of = |subscription| {
            let (on_synced, synced) = oneshot::channel();
            let run = pump(subscription, Arc::clone(&watch), sink.clone(), on_synced).boxed();
            Pump { synced, run }
        };
        Ok(subscribe::<K>(cache)?.into_iter().map(pump_of).collect())
    }
}

async fn pump<K: TypedObject, R: RequestKey>(
    mut subscription: Subscription<K>,
    watch: Arc<Watch<K, R>>,
    sink: Sink<R>,
    synced: oneshot::Sender<()>,
) -> PumpEnd {
    let mut synced = Some(synced);
    while let Some(delivery) = subscription.next().await {
        match delivery {
            Delivery::Event(event) => {
                let mut requests = requests_of(&event, sink.initial_priority);
                let route = || watch.route(&event, sink.filter_all.as_ref(), &mut requests);
                // CTRL-6: a panic loses this event. The author of the closures is responsible for
                // their state, as after an early return.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(route)) {
                    sink.report(HandlerPanic {
                        kind: watch.kind().clone(),
                        watch: sink.watch,
                        cluster: sink.cluster.clone(),
                        key: event.key().clone(),
                        message: panic_text(&*payload).to_owned(),
                    });
                }
                // After a panic these are the requests that the handler had added before it.
                sink.request(watch.kind(), &event, &mut requests);
            }
            // CTRL-1: the whole initial set is in the queue. If the receiver is dropped, the
            // controller no longer waits for it.
            Delivery::Synced => {
                let _ = synced.take().map(|synced| synced.send(()));
            }
            // Other deliveries carry no object.
            _ => {}
        }
        tokio::task::coop::consume_budget().await;
    }
    PumpEnd::Stopped {
        kind: watch.kind().clone(),
    }
}

impl<R: RequestKey> Sink<R> {
    /// Adds the requests of an event to the queue, with the event as their cause.
    fn request<K: Object>(&self, kind: &Kind, event: &Event<K>, requests: &mut Requests<R>) {
        let cause = cause_of(event);
        if cause == EVENT && requests.iter().next().is_some() {
            // The detector knows the writes in the manager's own cluster alone.
            if self.cluster.is_none() {
                self.loops.observe(kind, event);
            }
            // CTRL-20: recorded before the request is added, so that the run of the request finds it.
            let changed = ChangedObject::of(kind, self.cluster.as_ref(), event);
            self.changes.record(requests.iter(), &Arc::new(changed));
        }
        for (request, options) in requests.drain() {
            self.queue.add_with(request, options.cause(cause));
        }
    }

    /// Logs and counts a panic of a predicate, handler or filter, and records it in the status.
    fn report(&self, panic: HandlerPanic) {
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
