//! CACHE-10: every read of a stopped cache fails with `Error::Stopped`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::faults::Answer;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{CacheOptions, ListOptions};
use steersman_informer::{Informer, InformerState};
use steersman_object::Kind;
use tokio_util::sync::CancellationToken;

use crate::world::{World, key, shares, soon};

/// CACHE-10
#[tokio::test(start_paused = true)]
async fn nothing_is_read_from_a_cache_that_has_stopped() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    let name = |map: &ConfigMap| map.metadata.name.clone();
    world.cache.index_field("name", name).unwrap();
    // Declared by a call instead of the options: the error must not say that the kind is undeclared.
    world.cache.informer::<Secret>().unwrap();
    let store = world.cache.informer::<ConfigMap>().unwrap().store();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let cache = world.cache.clone();
    let here = key("a", "c");
    let read = cache.get::<ConfigMap>(&here).await.unwrap();
    let at_hand = || cache.get_decoded::<ConfigMap>(&here);
    // Without a decoded budget, no object is decoded.
    assert_eq!(
        at_hand().is_some_and(|at_hand| Arc::ptr_eq(&read, &at_hand)),
        shares()
    );
    world.stop().await.unwrap();
    assert!(at_hand().is_none());

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
        cache.wait_for_sync().await.unwrap_err(),
    ] {
        assert!(error.is_stopped(), "{error}");
        assert!(error.to_string().contains("the cache has stopped"));
    }
    // A store handle still returns its last state.
    assert!(store.get(&here).is_some());
}

/// CACHE-10: informers end before the cache does; an unsynced one must not be reported as failing.
#[tokio::test(start_paused = true)]
async fn a_waiting_read_fails_when_the_cache_stops() {
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

/// Creates a cache with one place for first syncs, which the first informer takes, and returns an informer that waits
/// for the place.
fn crowded(options: CacheOptions) -> (World, Informer<Service>) {
    let world = World::new(options.concurrent_syncs(1));
    world.cache.informer::<ConfigMap>().unwrap();
    world.cache.informer::<Secret>().unwrap();
    let last = world.cache.informer::<Service>().unwrap();
    (world, last)
}

/// Checks that `end` releases the tasks that wait for an informer that never started.
async fn is_released_by(last: Informer<Service>, end: impl Future<Output = ()>) {
    let mut subscription = last.subscribe();
    let waiting = last.clone();
    let waiting = tokio::spawn(async move { waiting.wait_for_sync().await });
    end.await;
    assert!(soon(subscription.next()).await.is_none());
    assert!(soon(waiting).await.unwrap().is_err());
    assert_eq!(last.state(), InformerState::Stopped);
}

/// CACHE-11: the run is dropped before or after its first poll.
#[tokio::test(start_paused = true)]
async fn informers_that_never_started_end_when_the_run_is_dropped() {
    let (world, last) = crowded(CacheOptions::new());
    let long = Duration::from_secs(3600);
    let _slow = world.server.faults().delay(None, "configmaps", long);
    let client_config = ClientConfig::in_process(world.server.service(), "default");
    let run = world.cache.run(client_config, CancellationToken::new());
    let dropped = async {
        let run = tokio::time::timeout(Duration::from_secs(5), run);
        assert!(run.await.is_err());
    };
    is_released_by(last, dropped).await;
    assert_eq!(world.server.requests().count(|r| r.is_for("services")), 0);

    let (world, last) = crowded(CacheOptions::new());
    let begun = world.cache.begin().unwrap();
    is_released_by(last, async { drop(begun) }).await;
}

/// CACHE-11: another informer panics.
#[tokio::test(start_paused = true)]
async fn informers_that_never_started_end_when_another_one_panics() {
    let hook = CacheOptions::new().on_watch_error(|failed| panic!("no {failed:?}"));
    let (world, last) = crowded(hook);
    let long = Duration::from_secs(3600);
    let _slow = world.server.faults().delay(None, "secrets", long);
    let refused = Answer::code(403);
    let _refused = world.server.faults().answer(None, "configmaps", refused);
    let client_config = ClientConfig::in_process(world.server.service(), "default");
    let run = world.cache.run(client_config, CancellationToken::new());
    let panicked = async { assert!(soon(run).await.is_err()) };
    is_released_by(last, panicked).await;
    assert_eq!(world.server.requests().count(|r| r.is_for("services")), 0);
}

/// CACHE-11: the informer is declared after the cancellation, and before the cache handles it.
#[tokio::test(start_paused = true)]
async fn informers_declared_after_the_cancellation_end() {
    for _either_is_heard_first in 0..16 {
        let world = World::new(CacheOptions::new());
        let client_config = ClientConfig::in_process(world.server.service(), "default");
        let cancel = CancellationToken::new();
        let run = tokio::spawn(world.cache.run(client_config, cancel.clone()));
        tokio::task::yield_now().await;
        cancel.cancel();
        let last = world.cache.informer::<Service>().unwrap();
        let ended = async { run.await.unwrap().unwrap() };
        is_released_by(last, ended).await;
    }
}
