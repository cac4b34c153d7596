//! Machine: the handler that adds the name of a cluster to the requests of another handler.

use futures::future::{FutureExt, TryFutureExt};
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_informer::Event;
use steersman_object::Object;

use crate::handler::target::Keyed;
use crate::handler::{EventHandler, HandlerFuture, Requests};
use crate::request::{ClusterName, ClusterRequest, Request};

/// Adds a cluster to the requests of another handler; see [`in_cluster`].
#[derive(Debug, Clone)]
pub struct InCluster<H> {
    cluster: ClusterName,
    handler: H,
}

/// Turns the requests of `handler` into requests for objects of `cluster`.
///
/// A controller with [`ClusterRequest`]s needs this handler for the objects of its manager's own cluster:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_controller::{ClusterName, ClusterRequest, Controller, Watch, handler};
///
/// let copies = Controller::keyed::<ClusterRequest>("copies")
///     .watches::<ConfigMap>(handler::in_cluster(ClusterName::local(), handler::itself()))
///     .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters());
/// ```
pub fn in_cluster<H>(cluster: impl Into<ClusterName>, handler: H) -> InCluster<H> {
    InCluster {
        cluster: cluster.into(),
        handler,
    }
}

impl<H> InCluster<H> {
    fn name_cluster(&self, mut inner: Requests<Request>, requests: &mut Requests<ClusterRequest>) {
        for (request, options) in inner.drain() {
            let request = ClusterRequest::new(self.cluster.clone(), request.key);
            requests.add_with(request, options);
        }
    }
}

impl<K, H> EventHandler<K, Keyed<ClusterRequest>> for InCluster<H>
where
    K: Object,
    H: EventHandler<K, Keyed<Request>>,
{
    fn declare(&self, cache: &Cache) -> Result<(), steersman_cache::Error> {
        self.handler.declare(cache)
    }

    fn handle(&self, event: &Event<K>, requests: &mut Requests<ClusterRequest>) {
        let mut inner = Requests::with_defaults(requests.defaults());
        self.handler.handle(event, &mut inner);
        self.name_cluster(inner, requests);
    }

    fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        mut requests: Requests<ClusterRequest>,
    ) -> Option<HandlerFuture<'a, ClusterRequest>> {
        let inner = Requests::with_defaults(requests.defaults());
        let handling = self.handler.handle_async(event, client, inner)?;
        let named = handling.map_ok(move |inner| {
            self.name_cluster(inner, &mut requests);
            requests
        });
        Some(named.boxed())
    }
}
