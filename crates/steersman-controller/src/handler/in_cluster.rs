//! Machine: a handler with requests that name a cluster.

use steersman_informer::Event;
use steersman_object::Object;

use crate::handler::{EventHandler, Requests};
use crate::request::Request;
use crate::request::{ClusterName, ClusterRequest};

/// Names a cluster in the requests of another handler; see [`in_cluster`].
#[derive(Debug, Clone)]
pub struct InCluster<H> {
    cluster: ClusterName,
    handler: H,
}

/// Turns the requests of `handler` into requests for objects of `cluster`.
///
/// A controller with [`ClusterRequest`]s needs it for the objects of its manager's own cluster:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_controller::{ClusterName, ClusterRequest, Controller, handler};
///
/// let copies = Controller::keyed::<ClusterRequest>("copies")
///     .watches::<ConfigMap>(handler::in_cluster(ClusterName::local(), handler::itself()))
///     .watches_in_clusters::<ConfigMap>(handler::itself());
/// # let _ = copies;
/// ```
pub fn in_cluster<H>(cluster: impl Into<ClusterName>, handler: H) -> InCluster<H> {
    InCluster {
        cluster: cluster.into(),
        handler,
    }
}

impl<K: Object, H: EventHandler<K, Request>> EventHandler<K, ClusterRequest> for InCluster<H> {
    fn handle(&self, event: &Event<K>, requests: &mut Requests<ClusterRequest>) {
        let mut inner = Requests::with_defaults(requests.defaults());
        self.handler.handle(event, &mut inner);
        for (request, options) in inner.drain() {
            requests.add_with(
                ClusterRequest::new(self.cluster.clone(), request.key),
                options,
            );
        }
    }
}
