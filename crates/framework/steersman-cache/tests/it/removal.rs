//! CACHE-7, CACHE-8: an informer that was removed or ended as idle leaves nothing behind, and a later read starts a new
//! informer.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{ByObject, CacheOptions, Error, ListOptions};
use steersman_informer::{Delivery, InformerState};
use steersman_object::Kind;

use crate::world::{World, event_of, initial, key, shares, soon};

/// CACHE-7
#[tokio::test(start_paused = true)]
async fn a_removed_kind_is_not_watched_and_the_next_read_lists_it_again() {
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
    soon(states.wait_for(|state| *state == InformerState::Stopped))
        .await
        .unwrap();
    assert_eq!(services.state(), InformerState::Synced);

    // The kind is not watched, so later changes reach no store.
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

/// CACHE-7: removing an informer that never started ends its subscriptions, and its replacement is
/// started once.
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

/// CACHE-7: a read that waits for the first sync fails if the kind is removed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_waiting_read_fails_when_its_kind_is_removed() {
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
async fn an_informer_removed_before_its_first_sync_sends_no_request() {
    let log = steersman_testenv::log::capture();
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
    assert!(!log.text().contains("ERROR"), "{}", log.text());
    world.stop().await.unwrap();
}

const LINGER: Duration = Duration::from_secs(600);

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Returns the number of requests for a resource; a running informer sends one request every five minutes.
fn asked(world: &World, resource: &str) -> usize {
    world.server.requests().count(|r| r.is_for(resource))
}

async fn services(world: &World) -> usize {
    let everything = ListOptions::new();
    soon(world.cache.list::<Service>(&everything))
        .await
        .unwrap()
        .len()
}

/// CACHE-8
#[tokio::test(start_paused = true)]
async fn an_undeclared_informer_ends_after_its_last_read_and_the_next_read_restarts_it() {
    let mut world = World::new(CacheOptions::new());
    world.start();
    for _ in 0..20 {
        assert_eq!(services(&world).await, 0);
        pass(LINGER / 2).await;
    }
    assert_eq!(world.server.requests().watch_lists("services"), 1);

    pass(LINGER).await;
    let before = asked(&world, "services");
    pass(LINGER * 10).await;
    assert_eq!(
        asked(&world, "services"),
        before,
        "the informer sends no more requests"
    );
    assert!(world.cache.all_unsynced().is_empty());

    world.service("a", "s");
    assert_eq!(services(&world).await, 1);
    assert_eq!(world.server.requests().watch_lists("services"), 2);
    world.stop().await.unwrap();
}

/// CACHE-8
#[tokio::test(start_paused = true)]
async fn a_subscription_keeps_an_undeclared_informer_until_it_is_dropped() {
    let mut world = World::new(CacheOptions::new());
    world.start();
    let reads = world.cache.of::<Service>(&Kind::of::<Service>());
    let mut subscriptions = reads.subscribe().unwrap();
    let mut subscription = subscriptions.pop().unwrap();
    assert!(subscriptions.is_empty());
    pass(LINGER * 5).await;
    world.service("a", "s");
    soon(event_of(&mut subscription, &key("a", "s"))).await;
    assert_eq!(world.server.requests().watch_lists("services"), 1);

    drop(subscription);
    pass(LINGER + LINGER / 5).await;
    let before = asked(&world, "services");
    pass(LINGER * 5).await;
    assert_eq!(asked(&world, "services"), before);
    world.stop().await.unwrap();
}

/// CACHE-7, CACHE-8: dropping the last handle closes the server's stream and frees the objects.
#[tokio::test(start_paused = true)]
async fn an_ended_informer_closes_its_stream_and_frees_its_objects() {
    for removes in [true, false] {
        let mut world = World::new(CacheOptions::new());
        world.service("a", "s");
        world.start();
        let kind = Kind::of::<Service>();
        let mut subscription = world
            .cache
            .of::<Service>(&kind)
            .subscribe()
            .unwrap()
            .remove(0);
        soon(event_of(&mut subscription, &key("a", "s"))).await;
        let open = || world.server.faults().open_watches("services");
        let read = world.cache.get::<Service>(&key("a", "s")).await.unwrap();
        let object = Arc::downgrade(&read);
        drop(read);
        pass(Duration::from_secs(1)).await;
        assert!(open() == 1 && object.upgrade().is_some() == shares());
        if removes {
            assert_eq!(world.cache.remove::<Service>(), 1);
            while soon(subscription.next()).await.is_some() {}
        }
        drop(subscription);
        pass(LINGER * 2).await;
        assert_eq!(open(), 0);
        assert!(object.upgrade().is_none());
        world.stop().await.unwrap();
    }
}

/// CACHE-8: a declared kind stays cached for as long as the cache runs, read or not.
#[tokio::test(start_paused = true)]
async fn a_declared_informer_never_ends_as_idle() {
    let by_object = ByObject::new().namespaces(["a"]);
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(by_object));
    world.start();
    let everything = ListOptions::new();
    soon(world.cache.list::<ConfigMap>(&everything))
        .await
        .unwrap();
    // The kind is read first, and declared during its linger time.
    assert_eq!(services(&world).await, 0);
    pass(LINGER / 2).await;
    drop(world.cache.informer::<Service>().unwrap());
    for resource in ["configmaps", "services"] {
        let before = asked(&world, resource);
        pass(LINGER * 5).await;
        assert!(asked(&world, resource) > before, "{resource}");
        assert_eq!(world.server.requests().watch_lists(resource), 1);
    }
    world.stop().await.unwrap();
}

/// CACHE-8
#[tokio::test(start_paused = true)]
async fn without_a_linger_time_no_informer_ends() {
    let mut world = World::new(CacheOptions::new().linger(None));
    world.start();
    services(&world).await;
    pass(LINGER * 20).await;
    let before = asked(&world, "services");
    pass(LINGER).await;
    assert!(asked(&world, "services") > before);
    world.stop().await.unwrap();
}

/// CACHE-8: a read that waits for the first sync counts as a use for the whole wait.
#[tokio::test(start_paused = true)]
async fn a_waiting_read_keeps_its_informer() {
    let short = Duration::from_secs(1);
    let mut world = World::new(CacheOptions::new().linger(short));
    let slow = world.server.faults().delay(None, "services", short * 60);
    world.start();
    assert_eq!(services(&world).await, 0);
    drop(slow);
    pass(short * 2).await;
    let before = asked(&world, "services");
    pass(LINGER).await;
    assert_eq!(asked(&world, "services"), before);
    world.stop().await.unwrap();
}

/// CACHE-8: reads on other threads succeed at any moment while an informer ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn reads_and_subscriptions_succeed_while_an_idle_informer_ends() {
    let mut world = World::new(CacheOptions::new().linger(Duration::ZERO));
    world.service("a", "s");
    world.start();
    let mut tasks = Vec::new();
    for task in 0..3_u64 {
        let cache = world.cache.clone();
        tasks.push(tokio::spawn(async move {
            let reads = cache.of::<Service>(&Kind::of::<Service>());
            for round in 0..200_u64 {
                reads.get(&key("a", "s")).await.unwrap();
                let mut subscription = reads.subscribe().unwrap().pop().unwrap();
                assert_eq!(initial(&mut subscription).await, 1);
                drop(subscription);
                // The read falls close to the time of an idle check.
                tokio::time::sleep(Duration::from_micros(400 * ((task + round) % 5))).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // The informer ends once more, and the next read starts it again.
    let (kind, key) = (Kind::of::<Service>(), key("a", "s"));
    while world.cache.untyped_of(kind.gvk(), &key).is_some() {
        tokio::task::yield_now().await;
    }
    world.cache.get::<Service>(&key).await.unwrap();
    assert!(world.server.requests().watch_lists("services") > 1);
    world.stop().await.unwrap();
}

/// CACHE-7: `wait_for_sync` does not wait for removed kinds.
#[tokio::test(start_paused = true)]
async fn waiting_for_sync_ignores_kinds_removed_meanwhile() {
    let mut world = World::new(CacheOptions::new());
    let slow = Duration::from_secs(60);
    let _slow = world.server.faults().delay(None, "services", slow);
    world.cache.informer::<ConfigMap>().unwrap();
    world.cache.informer::<Service>().unwrap();
    world.start();
    let cache = world.cache.clone();
    let waiting = tokio::spawn(async move { cache.wait_for_sync().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    assert_eq!(world.cache.remove::<Service>(), 1);
    soon(waiting).await.unwrap().unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    world.stop().await.unwrap();
}
