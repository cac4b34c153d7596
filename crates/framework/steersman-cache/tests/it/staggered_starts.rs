//! CACHE-5: the starts of many informers are staggered.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_cache::{ByObject, CacheOptions};
use tokio::time::Instant;

use crate::world::{World, soon};

/// CACHE-5: each list takes ten seconds, so 200 lists, ten at a time, take 200 seconds. More lists at a time would end
/// sooner.
#[tokio::test(start_paused = true)]
async fn two_hundred_informers_start_ten_at_a_time() {
    let namespaces: Vec<String> = (0..200).map(|n| format!("n{n:03}")).collect();
    let options = CacheOptions::new()
        .watch_list(false)
        .sync_timeout(Duration::from_secs(600))
        .by_object::<ConfigMap>(ByObject::new().namespaces(namespaces));
    let mut world = World::new(options);
    assert_eq!(world.cache.informers::<ConfigMap>().unwrap().len(), 200);
    let takes = Duration::from_secs(10);
    let _slow = world.server.faults().delay(Verb::List, "configmaps", takes);
    let before = Instant::now();
    world.start();
    for turn in 1..=20_usize {
        let into_it = takes * u32::try_from(turn).unwrap() - takes / 2;
        tokio::time::sleep_until(before + into_it).await;
        let lists = world.server.requests().lists("configmaps");
        assert_eq!(lists, 10 * turn, "half way through turn {turn}");
        let unsynced = world.cache.all_unsynced().len();
        assert_eq!(unsynced, 200 - 10 * (turn - 1), "in turn {turn}");
    }
    soon(world.cache.wait_for_sync()).await.unwrap();
    world.stop().await.unwrap();
}

/// CACHE-5, CACHE-2
#[tokio::test(start_paused = true)]
async fn a_hanging_kind_does_not_block_other_first_syncs() {
    // A silent stream is abandoned. A hanging list goes on, and only loses its place among the first syncs.
    for streams in [true, false] {
        let options = CacheOptions::new().watch_list(streams);
        let mut world = World::new(options.concurrent_syncs(1));
        world.config_map("a", "c", &json!({}));
        let long = Duration::from_secs(3600);
        let _hangs = world.server.faults().delay(None, "configmaps", long);
        world.cache.informer::<ConfigMap>().unwrap();
        let services = world.cache.informer::<Service>().unwrap();
        let before = Instant::now();
        world.start();
        soon(services.wait_for_sync()).await.unwrap();
        assert!(before.elapsed() >= Duration::from_secs(30));
        world.stop().await.unwrap();
    }
}

/// The subscription of an informer that never started ends, and no request is sent.
#[tokio::test(start_paused = true)]
async fn an_informer_stopped_before_its_first_sync_ends_its_subscriptions() {
    let mut world = World::new(CacheOptions::new().concurrent_syncs(1));
    let long = Duration::from_secs(20);
    let _slow = world.server.faults().delay(None, "configmaps", long);
    world.cache.informer::<ConfigMap>().unwrap();
    let services = world.cache.informer::<Service>().unwrap();
    let mut subscription = services.subscribe();
    world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let server = world.server.clone();
    world.stop().await.unwrap();
    assert!(soon(subscription.next()).await.is_none());
    assert_eq!(server.requests().count(|r| r.is_for("services")), 0);
}
