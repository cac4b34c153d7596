//! CACHE-10: a cache that has stopped says so, whoever reads whatever.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_cache::{CacheOptions, ListOptions};
use steersman_object::Kind;

use crate::world::{World, key, soon};

/// CACHE-10
#[tokio::test(start_paused = true)]
async fn nothing_is_read_from_a_cache_that_has_stopped() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    let name = |map: &ConfigMap| map.metadata.name.clone();
    world.cache.index_field("name", name).unwrap();
    // Declared, and not by the options: it must not be taken for what nobody declared.
    world.cache.informer::<Secret>().unwrap();
    let store = world.cache.informer::<ConfigMap>().unwrap().store();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let cache = world.cache.clone();
    let here = key("a", "c");
    cache.get::<ConfigMap>(&here).await.unwrap();
    world.stop().await.unwrap();

    let everything = ListOptions::new();
    let maps = cache.of::<ConfigMap>(&Kind::of::<ConfigMap>());
    let dynamic = cache.of::<DynamicObject>(&Kind::of::<ConfigMap>());
    let metadata = cache.metadata::<ConfigMap>();
    for error in [
        cache.get::<ConfigMap>(&here).await.unwrap_err(),
        cache.get_opt::<ConfigMap>(&here).await.unwrap_err(),
        cache.get::<Secret>(&here).await.unwrap_err(),
        cache.get::<Service>(&here).await.unwrap_err(),
        cache.list::<ConfigMap>(&everything).await.unwrap_err(),
        maps.get_with_version(&here).await.unwrap_err(),
        maps.keys(&everything).await.unwrap_err(),
        maps.for_each(&everything, |_| {}).await.unwrap_err(),
        maps.index_values("name").await.unwrap_err(),
        maps.subscribe().unwrap_err(),
        dynamic.keys(&everything).await.unwrap_err(),
        dynamic.for_each(&everything, |_| {}).await.unwrap_err(),
        metadata.list(&everything).await.unwrap_err(),
        cache.informer::<Service>().unwrap_err(),
    ] {
        assert!(error.is_stopped(), "{error}");
        assert!(error.to_string().contains("the cache has stopped"));
    }
    // Who holds a store asked for what it had, and may look at the state.
    assert!(store.get(&here).is_some());
}

/// CACHE-10: informers end before the cache has, and one that has not synced is no failing one then.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_learns_that_the_cache_stops() {
    let mut world = World::new(CacheOptions::new());
    let long = Duration::from_secs(60);
    let _slow = world.server.faults().delay(None, "services", long);
    world.start();
    let reader = world.cache.clone();
    let read = tokio::spawn(async move { reader.get_opt::<Service>(&key("a", "s")).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.stop().await.unwrap();
    let error = soon(read).await.unwrap().unwrap_err();
    assert!(error.is_stopped(), "{error}");
}
