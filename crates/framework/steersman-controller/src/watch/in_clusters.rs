//! Driver: watches one kind in each cluster of a set, also in clusters that are added later.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt as _, join_all};
use futures::stream::StreamExt as _;
use steersman_cache::{Cache, Error};
use steersman_object::{Kind, Object, report};
use tokio::task::{JoinError, JoinSet};

use crate::clusters::{ClusterMember, Clusters};
use crate::handler::in_cluster;
use crate::handler::target::Keyed;
use crate::request::{ClusterRequest, Request, RequestKey};
use crate::watch::optional::OptionalWatch;
use crate::watch::{AnySource as _, AnyWatch as _, EventRoute, Pump, PumpEnd, Sink};

pub(crate) struct ClusterWatch<K: Object> {
    pub(crate) route: EventRoute<K, Keyed<Request>>,
    pub(crate) is_optional: bool,
}

pub(crate) trait AnyClusterWatch<R: RequestKey>: Send + Sync {
    fn kind(&self) -> &Kind;

    fn declare(&self, cache: &Cache) -> Result<(), Error>;

    /// Subscribes to the kind in one cluster, and returns one task per subscription to read its events.
    fn start(&self, member: &ClusterMember, sink: &Sink<R>) -> Result<Vec<Pump>, Error>;
}

/// Watches a kind in the present and later clusters of a set, in each until the cluster is removed. Never ends by
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
            biased;
            Some(member) = added.next() => {
                spawn(&mut pumps, follow_one(Arc::clone(&watch), member, sink.clone()).boxed());
            }
            // CTRL-6: panics of the user's closures are caught elsewhere. Any other panic of a watch ends the
            // controller.
            Some(end) = pumps.join_next(), if !pumps.is_empty() => {
                if let Some(Ok(panic)) = end.err().map(JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
            }
            else => return PumpEnd::Finished,
        }
    }
}

/// Spawns a task. Not generic, so that an operator does not compile tokio's tasks once for each type of requests.
fn spawn(pumps: &mut JoinSet<()>, run: BoxFuture<'static, ()>) {
    pumps.spawn(run);
}

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

impl<K: Object> AnyClusterWatch<ClusterRequest> for ClusterWatch<K> {
    fn kind(&self) -> &Kind {
        self.route.kind()
    }

    fn declare(&self, cache: &Cache) -> Result<(), Error> {
        match self.is_optional {
            true => Ok(()),
            false => cache.informers_of::<K>(self.kind()).map(drop),
        }
    }

    fn start(
        &self,
        member: &ClusterMember,
        sink: &Sink<ClusterRequest>,
    ) -> Result<Vec<Pump>, Error> {
        let name = || member.name().clone();
        let route: EventRoute<K, Keyed<ClusterRequest>> = self
            .route
            .map_handler(|handler| in_cluster(name(), handler));
        let mut sink = sink.clone();
        sink.cluster = Some(name());
        sink.client = member.client().clone();
        if !self.is_optional {
            return Box::new(route).start(member.cache(), &sink);
        }
        let run = Box::new(OptionalWatch(route)).run(member.cache().clone(), sink);
        let (_, synced) = oneshot::channel();
        Ok(vec![Pump { synced, run }])
    }
}
