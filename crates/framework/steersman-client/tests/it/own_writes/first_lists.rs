//! RYOW-10: the first list of an informer is at least as new as the writes of this process.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::faults::{Answer, RequestRecord, Verb};
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{CacheOptions, ListOptions};
use steersman_client::ClientOptions;
use steersman_object::{Kind, Object as _, ObjectKey, ResourceVersion};
use tokio::time::{Instant, sleep};

use crate::own_writes::{mine, names};
use crate::world::{World, config, key, set};

fn first_list(world: &World) -> RequestRecord {
    let requests = world.server.requests();
    let asks = requests.matching(|request| {
        (request.does(Verb::List) || request.does(Verb::Watch)) && request.is_for("configmaps")
    });
    asks.into_iter().next().unwrap()
}

fn version_of(world: &World, name: &str) -> String {
    let object = world.server.get("configmaps", "default", name).unwrap();
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// RYOW-10: a kind that was not cached yet begins at the writes of this process, streamed or in pages.
#[tokio::test(start_paused = true)]
async fn the_first_list_of_a_kind_is_as_new_as_the_writes() {
    for streams in [true, false] {
        let cache = CacheOptions::new().watch_list(streams);
        let world = World::with(cache, ClientOptions::new());
        // The first list must include the writes of every client of the process.
        mine(&world).create(&config("a")).await.unwrap();
        let mut object = world.client.create(&config("b")).await.unwrap();
        set(&mut object, "k", "v");
        world.client.update(&object).await.unwrap();
        world.client.dry_run().create(&config("c")).await.unwrap();
        world
            .server
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "other", "namespace": "default"},
            }))
            .unwrap();
        world.server.requests().clear();
        drop(world.cached::<ConfigMap>().await);
        let first = first_list(&world);
        assert_eq!(first.does(Verb::Watch), streams);
        let version = version_of(&world, "b");
        assert_eq!(first.parameter("resourceVersion"), Some(&*version));
        assert_eq!(
            first.parameter("resourceVersionMatch"),
            Some("NotOlderThan")
        );
    }
}

/// RYOW-10: if the answer of a write names no version, the first list is the newest.
#[tokio::test(start_paused = true)]
async fn after_a_delete_or_a_lost_answer_the_first_list_is_the_newest() {
    for lost in [false, true] {
        let cache = CacheOptions::new().watch_list(false);
        let world = World::with(cache, ClientOptions::new());
        world.client.create(&config("a")).await.unwrap();
        if lost {
            let answer = Answer::code(504).times(1).after_commit();
            let faults = world.server.faults();
            let _lost = faults.answer(Verb::Create, "configmaps", answer);
            world.client.create(&config("b")).await.unwrap_err();
        } else {
            world
                .client
                .delete_key::<ConfigMap>(&key("a"))
                .await
                .unwrap();
        }
        world.server.requests().clear();
        drop(world.cached::<ConfigMap>().await);
        assert_eq!(first_list(&world).parameter("resourceVersion"), None);
    }
}

/// RYOW-10: an informer that had ended for want of reads starts again no earlier than the writes since.
#[tokio::test(start_paused = true)]
async fn an_informer_that_starts_again_begins_at_the_writes_since() {
    let cache = CacheOptions::new()
        .watch_list(false)
        .linger(Duration::from_secs(60))
        .default_namespaces(["default"]);
    let world = World::with(cache, ClientOptions::new());
    let client = mine(&world);
    names(&client).await;
    sleep(Duration::from_secs(300)).await;
    let gvk = Kind::of::<ConfigMap>();
    let runs = || {
        world
            .client
            .cache()
            .untyped_of(gvk.gvk(), &key("a"))
            .is_some()
    };
    assert!(!runs(), "it has lingered out");
    client.create(&config("a")).await.unwrap();
    world.server.requests().clear();
    assert_eq!(names(&client).await, ["a"]);
    let version = version_of(&world, "a");
    assert_eq!(
        first_list(&world).parameter("resourceVersion"),
        Some(&*version)
    );
}

/// RYOW-10: a server that never reaches the version is asked for its newest state.
#[tokio::test(start_paused = true)]
async fn a_first_list_falls_back_to_the_newest_state_for_an_unknown_version() {
    for streams in [true, false] {
        let cache = CacheOptions::new().watch_list(streams);
        let world = World::with(cache, ClientOptions::new());
        world.client.create(&config("a")).await.unwrap();
        let kind = Kind::of::<ConfigMap>();
        let beyond = ResourceVersion::new("999999999");
        world.client.cache().note_written(kind.gvk(), &beyond);
        let start = Instant::now();
        let client = mine(&world);
        world.client.cache().informer::<ConfigMap>().unwrap();
        let found = client.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
        assert!(
            found
                .iter()
                .any(|c| c.key() == ObjectKey::namespaced("default", "a"))
        );
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
}
