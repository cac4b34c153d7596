//! CACHE-7: an informer that was removed leaves nothing behind, and what comes later begins anew.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use steersman_cache::{ByObject, CacheOptions, Error, ListOptions};
use steersman_informer::{Delivery, State};

use crate::world::{World, initial, key, soon};

/// CACHE-7
#[tokio::test(start_paused = true)]
async fn a_removed_kind_is_watched_no_more_and_read_anew() {
    let options = CacheOptions::new().by_object::<ConfigMap>(ByObject::new());
    let mut world = World::new(options);
    world.config_map("a", "c", &json!({}));
    let removed = world.cache.informer::<ConfigMap>().unwrap();
    let services = world.cache.informer::<Service>().unwrap();
    let mut subscription = removed.subscribe();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    assert_eq!(initial(&mut subscription).await, 1);

    assert_eq!(world.cache.remove::<ConfigMap>(), 1);
    assert_eq!(world.cache.remove::<ConfigMap>(), 0);
    assert!(soon(subscription.next()).await.is_none());
    let mut states = removed.state_changes();
    soon(states.wait_for(|state| *state == State::Stopped))
        .await
        .unwrap();
    assert_eq!(services.state(), State::Synced);

    // Nobody follows it any more: what happens now is in the store of nobody.
    world.config_map("a", "d", &json!({}));
    assert!(removed.store().get(&key("a", "d")).is_none());
    assert_eq!(world.server.requests().watch_lists("configmaps"), 1);

    let everything = ListOptions::new();
    let read = soon(world.cache.list::<ConfigMap>(&everything)).await;
    assert_eq!(read.unwrap().len(), 2);
    assert_eq!(world.server.requests().watch_lists("configmaps"), 2);
    let mut anew = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    assert_eq!(initial(&mut anew).await, 2);
    world.stop().await.unwrap();
}

/// CACHE-7: one that was never started ends for its subscribers all the same, and the one that
/// takes its place is started once.
#[tokio::test(start_paused = true)]
async fn a_kind_may_be_removed_and_declared_again_before_the_start() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    let mut ended = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    assert_eq!(world.cache.remove::<ConfigMap>(), 1);
    assert!(soon(ended.next()).await.is_none());
    let mut subscription = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let first = soon(subscription.next()).await.unwrap();
    assert!(matches!(first, Delivery::Event(_)));
    assert_eq!(world.server.requests().watch_lists("configmaps"), 1);
    world.stop().await.unwrap();
}

/// CACHE-7: who waits for the first sync of a kind that is removed meanwhile is told.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_learns_of_the_removal() {
    let mut world = World::new(CacheOptions::new());
    let slow = Duration::from_secs(60);
    let _slow = world.server.faults().delay(None, "services", slow);
    world.start();
    let cache = world.cache.clone();
    let read = tokio::spawn(async move { cache.get_opt::<Service>(&key("a", "s")).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.cache.remove::<Service>(), 1);
    let error = soon(read).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    world.stop().await.unwrap();
}

/// CACHE-7, CACHE-5
#[tokio::test(start_paused = true)]
async fn one_that_is_removed_before_its_turn_asks_for_nothing() {
    let mut world = World::new(CacheOptions::new().concurrent_syncs(1));
    let slow = Duration::from_secs(20);
    let _slow = world.server.faults().delay(None, "configmaps", slow);
    world.cache.informer::<ConfigMap>().unwrap();
    let mut ended = world.cache.informer::<Service>().unwrap().subscribe();
    world.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.cache.remove::<Service>(), 1);
    assert!(soon(ended.next()).await.is_none());
    soon(world.cache.wait_for_sync()).await.unwrap();
    assert_eq!(world.server.requests().count(|r| r.is_for("services")), 0);
    world.stop().await.unwrap();
}
