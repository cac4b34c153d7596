//! CACHE-1: any number of readers and watchers of a kind share one informer.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{ByObject, CacheOptions, Error, ListOptions};
use tokio::time::Instant;

use crate::world::{World, event_of, initial, key, soon};

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn two_watchers_and_many_readers_cause_one_watch_list() {
    let mut world = World::new(CacheOptions::new());
    for n in 0..3 {
        world.config_map("a", &format!("c{n}"), &json!({}));
    }
    // Two controllers subscribe: one before the start, and one after.
    let mut early = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let mut late = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    assert_eq!(
        (initial(&mut early).await, initial(&mut late).await),
        (3, 3)
    );
    for _ in 0..10 {
        world.cache.get::<ConfigMap>(&key("a", "c1")).await.unwrap();
        assert_eq!(
            world
                .cache
                .list::<ConfigMap>(&ListOptions::new())
                .await
                .unwrap()
                .len(),
            3
        );
    }
    world.config_map("a", "c3", &json!({}));
    event_of(&mut early, &key("a", "c3")).await;
    event_of(&mut late, &key("a", "c3")).await;

    let requests = world.server.requests();
    assert_eq!(requests.watch_lists("configmaps"), 1);
    assert_eq!(requests.lists("configmaps"), 0);
    assert_eq!(requests.watches("configmaps"), 0);
    assert_eq!(requests.count(|r| r.is_for("*")), 1, "{:?}", requests.all());
    world.stop().await.unwrap();
}

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn without_watch_list_watchers_and_readers_cause_one_list_and_one_watch() {
    let mut world = World::new(CacheOptions::new().watch_list(false));
    for n in 0..1200 {
        world.config_map("a", &format!("c{n:04}"), &json!({}));
    }
    let mut first = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    let mut second = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    world.start();
    assert_eq!(
        (initial(&mut first).await, initial(&mut second).await),
        (1200, 1200)
    );
    world.config_map("a", "z", &json!({}));
    event_of(&mut first, &key("a", "z")).await;
    event_of(&mut second, &key("a", "z")).await;

    let requests = world.server.requests();
    assert_eq!(requests.watch_lists("configmaps"), 0);
    assert_eq!(
        requests.lists("configmaps"),
        1,
        "all pages belong to one list"
    );
    assert_eq!(requests.watches("configmaps"), 1);
    world.stop().await.unwrap();
}

/// CACHE-1 for a list of several pages. The first list accepts any version, and the server returns it whole from
/// memory; the list after an expired version requests the newest state in pages.
#[tokio::test(start_paused = true)]
async fn each_page_of_the_only_list_is_requested_once() {
    let mut world = World::new(CacheOptions::new().watch_list(false));
    for n in 0..1200 {
        world.config_map("a", &format!("c{n:04}"), &json!({}));
    }
    let gone = Answer::code(410).times(1);
    let _gone = world.server.faults().answer(Verb::List, "configmaps", gone);
    let mut first = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    let mut second = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    world.start();
    assert_eq!(
        (initial(&mut first).await, initial(&mut second).await),
        (1200, 1200)
    );
    world.config_map("a", "z", &json!({}));
    event_of(&mut first, &key("a", "z")).await;
    event_of(&mut second, &key("a", "z")).await;

    let requests = world.server.requests();
    let pages = requests.matching(|r| r.does(Verb::List) && r.status == Some(200));
    assert_eq!(pages.len(), 3, "1200 objects, 500 at a time: {pages:?}");
    assert_eq!(pages.iter().filter(|r| r.is_first_page()).count(), 1);
    assert_eq!(requests.watches("configmaps"), 1);
    world.stop().await.unwrap();
}

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn a_hundred_concurrent_first_reads_start_one_informer() {
    let world = World::synced(CacheOptions::new()).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "a", "name": "s"},
        "spec": {"ports": [{"port": 80}]},
    });
    world.server.create(service).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let cache = world.cache.clone();
        tasks.spawn(async move { cache.get::<Service>(&key("a", "s")).await.unwrap() });
    }
    assert_eq!(tasks.join_all().await.len(), 100);
    assert_eq!(world.server.requests().watch_lists("services"), 1);
    assert_eq!(world.server.requests().count(|r| r.is_for("services")), 1);
    world.stop().await.unwrap();
}

/// CACHE-1, CACHE-2: a failing kind gets the requests of one informer, for any number of readers. Every reader gets the
/// reason, and a later read succeeds.
#[tokio::test(start_paused = true)]
async fn a_hundred_concurrent_first_reads_of_a_failing_kind_send_one_request() {
    let world = World::synced(CacheOptions::new()).await;
    let refused = Answer::code(403).message("services is forbidden");
    let refused = world.server.faults().answer(None, "services", refused);
    let all_fail = async || {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let cache = world.cache.clone();
            tasks.spawn(async move { cache.get::<Service>(&key("a", "s")).await });
        }
        for read in tasks.join_all().await {
            let Err(Error::Unavailable(unsynced)) = read else {
                panic!("{read:?}");
            };
            assert!(unsynced.is_forbidden(), "{unsynced}");
        }
    };
    let asked = || world.server.requests().count(|r| r.is_for("services"));
    let before = Instant::now();
    all_fail().await;
    assert_eq!((asked(), world.cache.all_unsynced().len()), (1, 1));
    // Later readers cause no earlier retry.
    all_fail().await;
    assert_eq!((asked(), before.elapsed()), (1, Duration::ZERO));
    drop(refused);
    world.service("a", "s");
    soon(world.cache.wait_for_sync()).await.unwrap();
    world.cache.get::<Service>(&key("a", "s")).await.unwrap();
    assert_eq!(asked(), 2);
    assert_eq!(world.server.faults().open_watches("services"), 1);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_several_namespaces_has_one_informer_for_each() {
    let scoped = ByObject::new().namespaces(["a", "b"]);
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(scoped));
    world.config_map("a", "x", &json!({}));
    world.config_map("b", "y", &json!({}));
    world.config_map("default", "z", &json!({}));
    let error = world.cache.informer::<ConfigMap>().unwrap_err();
    assert!(matches!(error, Error::SeveralInformers { .. }), "{error}");
    assert_eq!(world.cache.informers::<ConfigMap>().unwrap().len(), 2);
    world.start();
    world.cache.wait_for_sync().await.unwrap();

    let all = world
        .cache
        .list::<ConfigMap>(&ListOptions::new())
        .await
        .unwrap();
    assert_eq!(all.len(), 2);
    let of_b = ListOptions::new().namespace("b");
    assert_eq!(world.cache.list::<ConfigMap>(&of_b).await.unwrap().len(), 1);
    world.cache.get::<ConfigMap>(&key("b", "y")).await.unwrap();
    let error = world
        .cache
        .get::<ConfigMap>(&key("default", "z"))
        .await
        .unwrap_err();
    assert!(error.is_outside_scope(), "{error}");
    let of_default = ListOptions::new().namespace("default");
    assert!(
        world
            .cache
            .list::<ConfigMap>(&of_default)
            .await
            .unwrap_err()
            .is_outside_scope()
    );
    let namespaced = |n: &'static str| {
        world
            .server
            .requests()
            .count(move |r| r.is_for("configmaps") && r.namespace.as_deref() == Some(n))
    };
    assert_eq!((namespaced("a"), namespaced("b")), (1, 1));
    assert_eq!(world.server.requests().count(|r| r.is_for("configmaps")), 2);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_runs_once_and_stops() {
    let mut world = World::new(CacheOptions::new());
    let informer = world.cache.informer::<ConfigMap>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let (cache, server) = (world.cache.clone(), world.server.clone());
    world.stop().await.unwrap();
    assert_eq!(informer.state(), steersman_informer::InformerState::Stopped);
    let client_config = steersman_api::ClientConfig::in_process(server.service(), "default");
    let again = cache
        .run(client_config, Default::default())
        .await
        .unwrap_err();
    assert!(matches!(again, Error::AlreadyRan), "{again}");
    let error = cache.get::<Service>(&key("a", "s")).await.unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
}
