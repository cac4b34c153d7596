//! A watch in each cluster makes requests that name a cluster, which a controller of one kind does not take.
//~ a controller of `Primary<ConfigMap>` takes no watch of `WatchedKind<Secret, Keyed<steersman::Request>, Keyed<ClusterRequest>>`
//~ a watch of `owned`, `owned_kind` or `poll` belongs to `Controller::builder` of the same kind, and one of `in_clusters` to `Controller::keyed` with `ClusterRequest`s

use steersman::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman::{Controller, Watch, itself};

fn main() {
    let watch = Watch::of::<Secret>(itself()).in_clusters();
    let _ = Controller::builder::<ConfigMap>().watch(watch);
}
