//! An outage of the server, which all informers of a cache detect together.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::json;
use steersman_apiserver::History;
use steersman_apiserver::faults::Restart;
use steersman_cache::{ByObject, CacheOptions, ListOptions, Settings};

use super::world::{World, key, soon};

const KINDS: usize = 7;

/// Creates a synced cache of several kinds, with a ConfigMap and a Service.
async fn world() -> World {
    let options = CacheOptions::new()
        .by_object::<ConfigMap>(ByObject::new().all_namespaces())
        .by_object::<Secret>(ByObject::new().all_namespaces());
    let mut world = World::new(options);
    let cache = &world.cache;
    cache.informer::<ConfigMap>().unwrap();
    cache.informer::<Secret>().unwrap();
    cache.informer::<Namespace>().unwrap();
    cache.informer::<Pod>().unwrap();
    cache.informer::<ServiceAccount>().unwrap();
    cache.informer::<ClusterRole>().unwrap();
    cache.informer::<Deployment>().unwrap();
    world.config_map("a", "m", &json!({}));
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    world
}

/// REFL-9: the number of requests during an outage does not depend on the number of kinds, and all kinds are in sync
/// five seconds after the outage.
#[tokio::test(start_paused = true)]
async fn refl_9_the_kinds_of_a_cache_wait_for_their_server_together() {
    let world = world().await;
    world.server.requests().clear();
    world
        .server
        .restart(Restart::new(History::Lost).away(Duration::from_secs(16)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.server.delete("configmaps", "a", "m").unwrap();
    world.config_map("b", "n", &json!({}));
    tokio::time::sleep(Duration::from_secs(15)).await;
    let asked = world.server.requests().count(|_| true);
    assert!(asked <= KINDS + 18, "{asked} requests");
    let back = async {
        while world.cache.get::<ConfigMap>(&key("b", "n")).await.is_err()
            || world.cache.get::<ConfigMap>(&key("a", "m")).await.is_ok()
            || world
                .cache
                .informer::<Deployment>()
                .unwrap()
                .state()
                .is_degraded()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(5), back).await;
    assert!(within.is_ok());
    world.stop().await.unwrap();
}

/// A linger time of zero disables lingering, a resync period of zero disables resyncs, a sync timeout of zero disables
/// waiting; the maximum of each never elapses.
#[tokio::test(start_paused = true)]
async fn durations_of_zero_disable_and_of_the_maximum_never_fire() {
    for time in [Duration::ZERO, Duration::MAX] {
        let options = CacheOptions::new()
            .linger(time)
            .sync_timeout(Duration::MAX)
            .defaults(Settings::new().resync(time));
        let mut world = World::new(options);
        world.service("a", "s");
        world.start();
        for _ in 0..3 {
            let listed = soon(world.cache.list::<Service>(&ListOptions::new())).await;
            assert_eq!(listed.unwrap().len(), 1);
            // Without a linger time, idle informers are checked every millisecond.
            let long = if time.is_zero() { 2 } else { 1800 };
            tokio::time::sleep(Duration::from_secs(long)).await;
        }
        let lists = world.server.requests().watch_lists("services");
        // Without a linger time an informer ends after its last read; with the maximum it never ends.
        let expected = if time.is_zero() { 3 } else { 1 };
        assert_eq!(lists, expected, "{time:?}");
        world.stop().await.unwrap();
    }
    // With a timeout of zero, a read fails at once.
    let mut world = World::new(CacheOptions::new().sync_timeout(Duration::ZERO));
    world.start();
    let error = world.cache.list::<Service>(&ListOptions::new()).await;
    assert!(error.unwrap_err().is_unavailable());
    world.stop().await.unwrap();
}
