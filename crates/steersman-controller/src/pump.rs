//! Driver: the wiring of one watch - subscription, predicate, handler, queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::FutureExt;
use steersman_cache::{Cache, Error};
use steersman_informer::{Delivery, Subscription};
use steersman_object::{Kind, TypedObject};

use crate::panic::message_of;
use crate::request::RequestKey;
use crate::source::subscribe;
use crate::watch::{AnyWatch, Pump, PumpEnd, Sink, Watch};

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
            let (tell, synced) = oneshot::channel();
            let run = pump(subscription, Arc::clone(&watch), sink.clone(), tell).boxed();
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
                let route = || watch.route(&event, sink.filter_all.as_ref());
                match catch_unwind(AssertUnwindSafe(route)) {
                    Ok(mut requests) => {
                        for (request, options) in requests.drain() {
                            sink.queue.add_with(request, options);
                        }
                    }
                    // CTRL-3: what this event should have caused is unknown, and going on would
                    // lose it in silence.
                    Err(payload) => {
                        return PumpEnd::Panicked {
                            kind: watch.kind().clone(),
                            key: event.key().clone(),
                            message: message_of(&*payload),
                        };
                    }
                }
            }
            // CTRL-1: everything of the initial set was added above. Nobody listens any more where
            // the controller has given up waiting.
            Delivery::Synced => {
                let _ = synced.take().map(|synced| synced.send(()));
            }
            // Deliveries that may be added to the informer carry no object.
            _ => {}
        }
        tokio::task::coop::consume_budget().await;
    }
    PumpEnd::Stopped {
        kind: watch.kind().clone(),
    }
}
