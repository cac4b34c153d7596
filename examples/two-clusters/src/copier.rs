//! Handle: the controller, which keeps a copy of each chosen ConfigMap in every other cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::controller::{ClusterMember, ClusterRequest, Clusters};
use steersman::futures::stream::{self, Stream, StreamExt as _};
use steersman::{
    Action, ByObject, CacheOptions, Client, Context, Controller, Error, ListOptions, Manager,
    ObjectKey, Reconciler, Watch, itself, mapped,
};

/// The label of the ConfigMaps to copy, and of their copies.
const LABEL: (&str, &str) = ("copy", "yes");

/// Writes copies. A request names the cluster of the copy, and the key of the original and of the copy.
struct Copier;

impl Reconciler<ClusterRequest> for Copier {
    async fn reconcile(&self, ctx: &Context, request: ClusterRequest) -> Result<Action, Error> {
        // ANCHOR: target
        let Some(target) = ctx.client_in(&request.cluster) else {
            return Ok(Action::done()); // The cluster was removed.
        };
        // ANCHOR_END: target
        match ctx.client().get_opt::<ConfigMap>(&request.key).await? {
            Some(original) => {
                let copy = |copy: &mut ConfigMap| {
                    let labels = copy.metadata.labels.get_or_insert_default();
                    labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
                    copy.data.clone_from(&original.data);
                    copy.binary_data.clone_from(&original.binary_data);
                };
                target.ensure(&request.key, copy).await?;
            }
            None => {
                if let Some(copy) = target.get_opt::<ConfigMap>(&request.key).await? {
                    target.delete(&copy).await?;
                }
            }
        }
        Ok(Action::done())
    }
}

/// Adds the controller to a manager.
///
/// # Errors
///
/// If the manager refuses the controller.
pub fn add(manager: &Manager) -> Result<(), Error> {
    let clusters = manager.clusters().clone();
    let in_each_cluster = move |original: &ConfigMap| {
        let key = ObjectKey::of_meta(&original.metadata);
        let members = clusters.list().into_iter();
        let request = move |m: ClusterMember| ClusterRequest::new(m.name().clone(), key.clone());
        members.map(request).collect::<Vec<_>>()
    };
    // ANCHOR: watches
    let controller = Controller::keyed::<ClusterRequest>("copier")
        // A change of an original concerns every cluster.
        .watches::<ConfigMap>(mapped(in_each_cluster))
        // A change of a copy is corrected.
        .watch(Watch::of::<ConfigMap>(itself()).in_clusters())
        // A new cluster gets every copy.
        .watch(Watch::requests(copies_for_new_clusters(
            manager.clusters(),
            manager.client().clone(),
        )))
        .build(Copier)?;
    // ANCHOR_END: watches
    manager.add_controller(controller)?;
    Ok(())
}

/// Returns the options of the cache of each cluster: it holds originals or copies, and no other ConfigMap.
pub fn cache() -> CacheOptions {
    let labels = format!("{}={}", LABEL.0, LABEL.1);
    CacheOptions::new().by_object::<ConfigMap>(ByObject::new().labels(labels))
}

/// Requests a copy of each original in each cluster that is added.
fn copies_for_new_clusters(
    clusters: &Clusters,
    originals: Client,
) -> impl Stream<Item = ClusterRequest> + Send + use<> {
    clusters.added().flat_map(move |member| {
        let originals = originals.clone();
        stream::once(async move { requests_for(&member, &originals).await }).flat_map(stream::iter)
    })
}

async fn requests_for(member: &ClusterMember, originals: &Client) -> Vec<ClusterRequest> {
    loop {
        match originals.list::<ConfigMap>(&ListOptions::new()).await {
            Ok(found) => {
                let keys = found
                    .iter()
                    .map(|original| ObjectKey::of_meta(&original.metadata));
                let request = |key| ClusterRequest::new(member.name().clone(), key);
                return keys.map(request).collect();
            }
            // The cluster of the originals is unavailable, as its informer has logged.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}
