//! A manager with a further cluster, which is added and removed while it runs. Both clusters are namespaces of the
//! same server, because an environment may have one only.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman::api::Patch;
use steersman::controller::{ClusterName, ClusterRequest};
use steersman::prometheus::TextEncoder;
use steersman::{
    Action, ByObject, CacheOptions, Context, Controller, Error, Manager, Reconciler, Watch, handler,
};
use steersman_testenv::eventually;

use super::world::{LABEL, Running, World, config_map, connection_of};

/// Writes the name of the cluster into each ConfigMap.
struct Marker;

impl Reconciler<ClusterRequest> for Marker {
    async fn reconcile(&self, ctx: &Context, request: ClusterRequest) -> Result<Action, Error> {
        let Some(client) = ctx.client_in(&request.cluster) else {
            return Ok(Action::done());
        };
        if let Some(map) = client.get_opt::<ConfigMap>(&request.key).await? {
            let mark = |map: &mut ConfigMap| {
                let data = map.data.get_or_insert_default();
                data.insert("cluster".to_owned(), request.cluster.to_string());
            };
            client.modify(&*map, mark).await?;
        }
        Ok(Action::done())
    }
}

/// Returns the options of a cache of the ConfigMaps of the tests in one namespace.
fn cache(namespace: &str) -> CacheOptions {
    let (label, value) = LABEL;
    let maps = ByObject::new().labels(format!("{label}={value}"));
    CacheOptions::new().by_object::<ConfigMap>(maps.namespaces([namespace]))
}

impl World {
    async fn make(&self, namespace: &str, name: &str) {
        let map = config_map(namespace, name);
        self.client.create(&map).await.unwrap();
    }

    async fn mark(&self, namespace: &str, name: &str) -> Option<String> {
        let key = steersman::ObjectKey::namespaced(namespace, name);
        let map: ConfigMap = self.client.live().get(&key).await.unwrap();
        map.data.and_then(|data| data.get("cluster").cloned())
    }

    /// Waits until a ConfigMap has the mark of a cluster.
    async fn marked(&self, namespace: &str, name: &str, cluster: &str) {
        let marked = eventually("the mark", || async {
            match self.mark(namespace, name).await {
                Some(mark) if mark == cluster => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        marked.await.unwrap();
    }
}

/// MGR-9
#[tokio::test]
async fn a_controller_works_in_a_cluster_until_it_is_removed() {
    let world = World::start().await;
    let home = &*world.namespace;
    let west = world.env.namespace("any-server-west").await.unwrap();
    let verbs = ["get", "list", "watch", "patch"];
    let user = world.env.user(format!("marker-of-{home}"));
    let user = user.allow_in(home, verbs, ["configmaps"]);
    let user = user.allow_in(&west, verbs, ["configmaps"]).create();
    let client_config = connection_of(&user.await.unwrap());
    let manager = Manager::builder(client_config.clone())
        .cache(cache(home))
        .build()
        .unwrap();
    let marker = Controller::keyed::<ClusterRequest>("marker")
        .watches::<ConfigMap>(handler::in_cluster(ClusterName::local(), handler::itself()))
        .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters())
        .build(Marker)
        .unwrap();
    manager.add_controller(marker).unwrap();
    let running = Running::start(&manager);
    world.make(home, "one").await;
    world.make(&west, "one").await;
    world.marked(home, "one", "local").await;
    assert_eq!(world.mark(&west, "one").await, None);

    let add = || manager.add_cluster("west", client_config.clone(), cache(&west));
    add().unwrap();
    world.marked(&west, "one", "west").await;
    let metrics = || TextEncoder::new().encode_to_string(&manager.metrics_registry().gather());
    assert!(metrics().unwrap().contains("cluster=\"west\""));
    assert!(manager.health().is_ok(), "{}", manager.health());

    assert!(manager.remove_cluster("west").await);
    assert!(!metrics().unwrap().contains("cluster=\"west\""));
    world.make(&west, "two").await;
    world.make(home, "two").await;
    world.marked(home, "two", "local").await;
    assert_eq!(world.mark(&west, "two").await, None);

    let edited = Patch::Merge(json!({"data": {"cluster": "edited while it was away"}}));
    let key = steersman::ObjectKey::namespaced(&*west, "one");
    world
        .client
        .patch::<ConfigMap>(&key, &edited)
        .await
        .unwrap();
    add().unwrap();
    world.marked(&west, "one", "west").await;
    world.marked(&west, "two", "west").await;
    running.stop().await;
}
