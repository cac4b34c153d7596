//! Driver: a watch of one kind in each cluster of a set, which follows the set.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;

use futures::future::join_all;
use futures::stream::StreamExt as _;
use steersman_cache::{Cache, Error};
use steersman_client::Client;
use steersman_informer::Event;
use steersman_object::{Kind, TypedObject, report};
use tokio::task::{JoinError, JoinSet};

use crate::clusters::ClusterMember;
use crate::clusters::Clusters;
use crate::handler::{EventHandler, HandlerFuture, InCluster, Requests, in_cluster};
use crate::predicate::Predicate;
use crate::request::ClusterRequest;
use crate::request::{Request, RequestKey};
use crate::watch::{AnyWatch, Pump, PumpEnd, Sink, Watch};

/// A kind that is watched in each cluster, with its predicate and its handler.
pub(crate) struct ClusterWatch<K: TypedObject> {
    kind: Kind,
    predicate: Arc<dyn Predicate<K>>,
    handler: Arc<dyn EventHandler<K, Request>>,
}

/// A [`ClusterWatch`] of an erased kind.
pub(crate) trait AnyClusterWatch<R: RequestKey>: Send + Sync {
    fn kind(&self) -> &Kind;

    /// Makes the kind known to the cache of one cluster.
    fn declare(&self, cache: &Cache) -> Result<(), Error>;

    /// Subscribes to the kind in one cluster, and returns one task per subscription.
    fn start(&self, member: &ClusterMember, sink: &Sink<R>) -> Result<Vec<Pump>, Error>;
}

/// A predicate that the watches of several clusters share.
struct SharedPredicate<K>(Arc<dyn Predicate<K>>);

/// A handler that the watches of several clusters share.
struct SharedHandler<K>(Arc<dyn EventHandler<K, Request>>);

/// Watches the present clusters of a set, those added later, and no cluster after its removal. Never ends by
/// itself.
///
/// CTRL-12: a cluster that is unreachable or refuses a kind delays no other cluster.
pub(crate) async fn follow<R: RequestKey>(
    watch: Arc<dyn AnyClusterWatch<R>>,
    clusters: Clusters,
    sink: Sink<R>,
) -> PumpEnd {
    let mut added = pin!(clusters.added());
    let mut pumps = JoinSet::new();
    loop {
        tokio::select! {
            Some(member) = added.next() => {
                pumps.spawn(follow_one(Arc::clone(&watch), member, sink.clone()));
            }
            // A panic outside the closures of the user ends the controller, as in any other watch.
            Some(end) = pumps.join_next(), if !pumps.is_empty() => {
                if let Some(Ok(panic)) = end.err().map(JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
            }
            else => return PumpEnd::Finished,
        }
    }
}

/// Watches one cluster until it is removed.
async fn follow_one<R: RequestKey>(
    watch: Arc<dyn AnyClusterWatch<R>>,
    member: ClusterMember,
    sink: Sink<R>,
) {
    let (cluster, kind) = (member.name().clone(), watch.kind());
    let pumps = match watch.start(&member, &sink) {
        Ok(pumps) => pumps,
        Err(error) => {
            tracing::error!(
                %cluster, %kind, error = %report(&error),
                "the cache of a cluster cannot watch the kind: change the options of its cache; \
                 other clusters go on"
            );
            return;
        }
    };
    let removed = member.removed();
    tokio::select! {
        biased;
        () = removed.cancelled() => {
            tracing::debug!(%cluster, %kind, "the cluster was removed, its watch ends");
        }
        _ = join_all(pumps.into_iter().map(|pump| pump.run)) => {
            tracing::debug!(%cluster, %kind, "the cache of the cluster has stopped, its watch ends");
        }
    }
}

// === impl ClusterWatch ===

impl<K: TypedObject> ClusterWatch<K> {
    pub(crate) fn new(
        predicate: impl Predicate<K>,
        handler: impl EventHandler<K, Request>,
    ) -> Self {
        Self {
            kind: Kind::of::<K>(),
            predicate: Arc::new(predicate),
            handler: Arc::new(handler),
        }
    }
}

impl<K: TypedObject> AnyClusterWatch<ClusterRequest> for ClusterWatch<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn declare(&self, cache: &Cache) -> Result<(), Error> {
        cache.informers::<K>().map(drop)
    }

    fn start(
        &self,
        member: &ClusterMember,
        sink: &Sink<ClusterRequest>,
    ) -> Result<Vec<Pump>, Error> {
        let predicate = SharedPredicate(Arc::clone(&self.predicate));
        let handler: InCluster<SharedHandler<K>> = in_cluster(
            member.name().clone(),
            SharedHandler(Arc::clone(&self.handler)),
        );
        let watch = Watch::<K, ClusterRequest>::new(Box::new(predicate), handler);
        let mut sink = sink.clone();
        sink.cluster = Some(member.name().clone());
        sink.client = member.client().clone();
        Box::new(watch).start(member.cache(), &sink)
    }
}

impl<K: TypedObject> Predicate<K> for SharedPredicate<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event)
    }
}

impl<K: TypedObject> EventHandler<K, Request> for SharedHandler<K> {
    fn handle(&self, event: &Event<K>, requests: &mut Requests<Request>) {
        self.0.handle(event, requests);
    }

    fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        requests: Requests<Request>,
    ) -> Option<HandlerFuture<'a, Request>> {
        self.0.handle_async(event, client, requests)
    }
}
