//! Driver: the wiring of one watch: subscription, predicate, handler, queue.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt};
use steersman_cache::{Cache, Error};
use steersman_informer::{Delivery, Informer, Subscription};
use steersman_object::{Kind, Object};

use crate::request::RequestKey;
use crate::source::subscribe;
use crate::watch::{AnySource, AnyWatch, Pump, PumpEnd, Sink, Watch};

/// A watch of an informer that need not belong to the cache of the controller.
pub(crate) struct InformerWatch<K: Object, R: RequestKey> {
    pub(crate) informer: Informer<K>,
    pub(crate) watch: Watch<K, R>,
}

impl<K: Object, R: RequestKey> AnyWatch<R> for Watch<K, R> {
    fn kind(&self) -> &Kind {
        self.kind()
    }

    fn declare(&self, cache: &Cache) -> Result<(), Error> {
        cache.informers_of::<K>(self.kind()).map(drop)
    }

    fn start(self: Box<Self>, cache: &Cache, sink: &Sink<R>) -> Result<Vec<Pump>, Error> {
        let watch: Arc<Self> = Arc::from(self);
        let pump_of = |subscription| {
            let (tell, synced) = oneshot::channel();
            let run = pump(subscription, Arc::clone(&watch), sink.clone(), tell).boxed();
            Pump { synced, run }
        };
        let subscriptions = subscribe::<K>(cache, watch.kind())?;
        Ok(subscriptions.into_iter().map(pump_of).collect())
    }
}

impl<K: Object, R: RequestKey> AnySource<R> for InformerWatch<K, R> {
    fn run(self: Box<Self>, _: &Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        let (tell, _) = oneshot::channel();
        let pump = pump(self.informer.subscribe(), Arc::new(self.watch), sink, tell);
        // The end of the informer is a matter of its owner.
        pump.map(|_| PumpEnd::Finished).boxed()
    }
}

async fn pump<K: Object, R: RequestKey>(
    mut subscription: Subscription<K>,
    watch: Arc<Watch<K, R>>,
    sink: Sink<R>,
    synced: oneshot::Sender<()>,
) -> PumpEnd {
    let mut synced = Some(synced);
    while let Some(delivery) = subscription.next().await {
        match delivery {
            Delivery::Event(event) => sink.handle(&watch, &event).await,
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
