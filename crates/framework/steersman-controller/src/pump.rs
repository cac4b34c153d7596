//! Driver: the wiring of one watch: reads a subscription, and passes each event to predicate, handler and queue.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt, join_all};
use steersman_cache::internal::{CacheInternals as _, NamespacedInformer};
use steersman_cache::{Cache, Error};
use steersman_informer::{Delivery, Informer, Subscription};
use steersman_object::{Kind, Object};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

use crate::handler::target::ControllerTarget;
use crate::source::subscribe;
use crate::watch::followed_namespaces::FollowedNamespaces;
use crate::watch::{AnySource, AnyWatch, EventRoute, Pump, PumpEnd, Sink};

/// A watch of an informer that need not belong to the cache of the controller.
pub(crate) struct InformerWatch<K: Object, P: ControllerTarget> {
    pub(crate) informer: Informer<K>,
    pub(crate) route: EventRoute<K, P>,
}

/// The end of a subscription in a watch that follows the namespaces of the cache.
struct EndedSubscription {
    /// The namespace of the subscription; `None` stands for all namespaces.
    namespace: Option<Arc<str>>,
    /// Whether the subscription ended because its namespace was removed from the cache.
    has_left_scope: bool,
}

/// A watch of a kind in a cache of named namespaces. Namespaces may be added and removed at run time (CTRL-42).
struct FollowedScope<K: Object, P: ControllerTarget> {
    changes: Receiver<u64>,
    route: Arc<EventRoute<K, P>>,
    cache: Cache,
    sink: Sink<P::Key>,
    namespaces: FollowedNamespaces,
    /// The subscriptions without a task that reads their events; `spawn_new` spawns these tasks.
    new: Vec<(NamespacedInformer<K>, Subscription<K>)>,
}

impl<K: Object, P: ControllerTarget> AnyWatch<P::Key> for EventRoute<K, P> {
    fn kind(&self) -> &Kind {
        self.kind()
    }

    fn declare(&self, cache: &Cache) -> Result<(), Error> {
        cache.informers_of::<K>(self.kind())?;
        self.handler.declare(cache)
    }

    fn start(self: Box<Self>, cache: &Cache, sink: &Sink<P::Key>) -> Result<Vec<Pump>, Error> {
        let route: Arc<Self> = Arc::from(self);
        if cache.default_namespaces().is_some() {
            let following = FollowedScope::new(route, cache, sink)?;
            let (tell, synced) = oneshot::channel();
            let run = following.follow(tell).boxed();
            return Ok(vec![Pump { synced, run }]);
        }
        let pump_of = |subscription| {
            let (on_synced, synced) = oneshot::channel();
            let run = pump(subscription, Arc::clone(&route), sink.clone(), on_synced).boxed();
            Pump { synced, run }
        };
        let subscriptions = subscribe::<K>(cache, route.kind())?;
        Ok(subscriptions.into_iter().map(pump_of).collect())
    }
}

impl<K: Object, P: ControllerTarget> FollowedScope<K, P> {
    /// Subscribes to the present informers of the kind.
    fn new(
        route: Arc<EventRoute<K, P>>,
        cache: &Cache,
        sink: &Sink<P::Key>,
    ) -> Result<Self, Error> {
        let mut this = Self {
            // The subscription to changes of the scope comes before the informers are read, so that no new namespace is
            // missed.
            changes: cache.scope_changes(),
            route,
            cache: cache.clone(),
            sink: sink.clone(),
            namespaces: FollowedNamespaces::default(),
            new: Vec::new(),
        };
        this.subscribe()?;
        Ok(this)
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        let informers = self.cache.informers_by_namespace(self.route.kind())?;
        for informer in self.namespaces.begin(&informers) {
            let subscription = informer.subscribe();
            self.new.push((informer, subscription));
        }
        Ok(())
    }

    /// Reads the events of each namespace in a task of its own, also of namespaces that the cache adds later (CTRL-42).
    async fn follow(mut self, synced: oneshot::Sender<()>) -> PumpEnd {
        let mut pumps = JoinSet::new();
        let initial = join_all(self.spawn_new(&mut pumps)).map(|_| synced.send(()));
        let mut initial = pin!(initial.fuse());
        loop {
            tokio::select! {
                biased;
                _ = &mut initial => continue,
                changed = self.changes.changed() => if changed.is_err() {
                    break;
                },
                Some(end) = pumps.join_next(), if !pumps.is_empty() => match end {
                    Ok(ended) => {
                        self.namespaces.end_of(&ended.namespace);
                        if !ended.has_left_scope {
                            break;
                        }
                    }
                    Err(error) => if let Ok(panic) = error.try_into_panic() {
                        resume_unwind(panic);
                    },
                },
            }
            if self.subscribe().is_err() {
                break;
            }
            self.spawn_new(&mut pumps);
        }
        PumpEnd::Stopped {
            kind: self.route.kind().clone(),
        }
    }

    /// Spawns a task for each subscription in `new`. Returns a receiver for each task, which resolves when the initial
    /// objects of the subscription are in the queue.
    fn spawn_new(&mut self, pumps: &mut JoinSet<EndedSubscription>) -> Vec<oneshot::Receiver<()>> {
        let new = self.new.drain(..).map(|(informer, subscription)| {
            let (tell, synced) = oneshot::channel();
            let run = pump(
                subscription,
                Arc::clone(&self.route),
                self.sink.clone(),
                tell,
            );
            let ended = move |_| EndedSubscription {
                namespace: informer.namespace().cloned(),
                has_left_scope: informer.has_left_scope(),
            };
            spawn(pumps, run.map(ended).boxed());
            synced
        });
        new.collect()
    }
}

impl<K: Object, P: ControllerTarget> AnySource<P::Key> for InformerWatch<K, P> {
    fn run(self: Box<Self>, _: Cache, sink: Sink<P::Key>) -> BoxFuture<'static, PumpEnd> {
        Box::pin(async move {
            let (tell, _) = oneshot::channel();
            pump(self.informer.subscribe(), Arc::new(self.route), sink, tell).await;
            // The informer may belong to another cache, so its end is no failure of this controller.
            PumpEnd::Finished
        })
    }
}

/// Spawns a task. Not generic, so that an operator does not compile tokio's tasks once for each of its kinds.
fn spawn(pumps: &mut JoinSet<EndedSubscription>, run: BoxFuture<'static, EndedSubscription>) {
    pumps.spawn(run);
}

async fn pump<K: Object, P: ControllerTarget>(
    mut subscription: Subscription<K>,
    route: Arc<EventRoute<K, P>>,
    sink: Sink<P::Key>,
    synced: oneshot::Sender<()>,
) -> PumpEnd {
    let mut synced = Some(synced);
    while let Some(delivery) = subscription.next().await {
        match delivery {
            Delivery::Event(event) => sink.handle(&route, &event).await,
            // CTRL-1: the requests of the initial objects are in the queue. The send fails if the controller does not
            // wait for them.
            Delivery::Synced => {
                let _ = synced.take().map(|synced| synced.send(()));
            }
            // Other deliveries carry no object, so they cause no request.
            _ => {}
        }
        tokio::task::coop::consume_budget().await;
    }
    PumpEnd::Stopped {
        kind: route.kind().clone(),
    }
}
