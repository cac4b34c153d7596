//! Panics in user code: a panic in a type, an index or a transform affects only the object at hand;
//! a panic in a hook, which runs in the informer's task, ends the cache with an error.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_core::object::{NotUsed, Object};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use steersman_apiserver::faults::Answer;
use steersman_cache::{ByObject, CacheOptions, Error, ListOptions, Transform};
use steersman_informer::{Informer, InformerState};
use steersman_object::Kind;

use crate::world::{World, event_of, key, soon};

/// A spec that panics while it decodes a marked object.
#[derive(Clone, Debug, Serialize)]
struct Fragile;

type Panicky = Object<Fragile, NotUsed>;

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = serde_json::Value::deserialize(deserializer)?;
        assert!(spec["sessionAffinity"] != "ClientIP", "on purpose");
        Ok(Self)
    }
}

/// VIEW-1, CACHE-4
#[tokio::test(start_paused = true)]
async fn a_type_that_panics_while_it_decodes_affects_that_object_only() {
    let mut world = World::new(CacheOptions::new());
    for name in ["good", "bad"] {
        world.service("a", name);
    }
    let server = world.server.clone();
    let sticks = |sticks: bool| {
        let affinity = if sticks { "ClientIP" } else { "None" };
        let patch = json!({"spec": {"sessionAffinity": affinity}});
        server.merge_patch("services", "a", "bad", &patch).unwrap();
    };
    sticks(true);
    let kind = Kind::of::<Service>();
    let reads = world.cache.of::<Panicky>(&kind);
    let mut events = reads.informers().unwrap()[0].subscribe();
    world.start();
    let error = soon(reads.get(&key("a", "bad"))).await.unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(reads.get(&key("a", "good")).await.is_ok());
    assert!(
        reads
            .list(&ListOptions::new())
            .await
            .unwrap_err()
            .is_malformed()
    );
    // Reads of other kinds are not affected.
    let all = soon(world.cache.list::<Service>(&ListOptions::new())).await;
    assert!(
        all.unwrap()
            .iter()
            .any(|s| s.metadata.name.as_deref() == Some("bad"))
    );
    sticks(false);
    soon(event_of(&mut events, &key("a", "bad"))).await;
    assert!(reads.get(&key("a", "bad")).await.is_ok());
    world.stop().await.unwrap();
}

/// Returns the value of a map; panics for one marked map.
fn values(map: &ConfigMap) -> Vec<String> {
    let value = map.data.iter().find_map(|data| data.get("v").cloned());
    assert!(value.as_deref() != Some("bad"), "on purpose");
    value.into_iter().collect()
}

/// VIEW-1, STORE-1: the index is registered before one object is stored and after the other.
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_affects_that_object_only() {
    let mut world = World::new(CacheOptions::new());
    let server = world.server.clone();
    let put = |name: &str, value: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value},
            "metadata": {"namespace": "a", "name": name},
        });
        let patch = json!({"data": {"v": value}});
        if server.merge_patch("configmaps", "a", name, &patch).is_err() {
            server.create(map).unwrap();
        }
    };
    for (name, value) in [("before", "bad"), ("late", "one"), ("good", "one")] {
        put(name, value);
    }
    let informer: Informer<ConfigMap> = world.cache.informer().unwrap();
    let mut events = informer.subscribe();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    world.cache.index_values::<ConfigMap>("v", values).unwrap();
    // The last good state stays readable, and has no value in the index.
    let seen = world.cache.get::<ConfigMap>(&key("a", "before")).await;
    assert!(seen.is_ok());
    assert_eq!(informer.store().malformed().len(), 1);
    put("late", "bad");
    put("late-too", "bad");
    put("last", "one");
    soon(event_of(&mut events, &key("a", "last"))).await;
    let error = world
        .cache
        .get::<ConfigMap>(&key("a", "late-too"))
        .await
        .unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert!(
        error
            .to_string()
            .contains("the index function \"v\" panicked"),
        "{error}"
    );
    let late = world
        .cache
        .get::<ConfigMap>(&key("a", "late"))
        .await
        .unwrap();
    assert_eq!(
        late.data.as_ref().unwrap()["v"],
        "one",
        "the last good state"
    );
    let store = informer.store();
    let aside = store.malformed();
    let aside: Vec<&str> = aside.iter().map(|malformed| malformed.key.name()).collect();
    assert_eq!(aside, ["before", "late", "late-too"]);
    let found: Vec<String> = store
        .by_index("v", "one")
        .unwrap()
        .iter()
        .filter_map(|map| map.metadata.name.clone())
        .collect();
    assert_eq!(found, ["good", "last", "late"]);
    put("late-too", "two");
    soon(event_of(&mut events, &key("a", "late-too"))).await;
    assert_eq!(store.by_index("v", "two").unwrap().len(), 1);
    world.stop().await.unwrap();
}

/// CACHE-4
#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_affects_that_object_only() {
    let panics = Transform::typed("fragile", |map: &mut ConfigMap| {
        assert!(map.metadata.name.as_deref() != Some("bad"), "on purpose");
        Ok::<_, Infallible>(())
    });
    let by_object = ByObject::new().transform(panics);
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(by_object));
    for name in ["good", "bad"] {
        world.config_map("a", name, &json!({}));
    }
    world.start();
    let error = soon(world.cache.get::<ConfigMap>(&key("a", "bad"))).await;
    let error = error.unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert!(
        error
            .to_string()
            .contains("\"fragile\" failed: it panicked"),
        "{error}"
    );
    assert!(
        world
            .cache
            .get::<ConfigMap>(&key("a", "good"))
            .await
            .is_ok()
    );
    world.stop().await.unwrap();
}

/// A hook is about no single object, so its panic ends the cache: all waiting readers fail, and the error names the
/// kind.
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_ends_the_cache_with_an_error_that_names_the_kind() {
    let options = CacheOptions::new().on_watch_error(|failed| panic!("no {failed:?}"));
    let world = World::new(options);
    let refused = Answer::code(403);
    let _refused = world.server.faults().answer(None, "services", refused);
    let maps = world.cache.informer::<ConfigMap>().unwrap();
    let mut subscription = maps.subscribe();
    world.cache.informer::<Service>().unwrap();
    let client_config = steersman_api::ClientConfig::in_process(world.server.service(), "default");
    let run = tokio::spawn(world.cache.run(client_config, Default::default()));
    let reader = world.cache.clone();
    let read = tokio::spawn(async move { reader.get::<Service>(&key("a", "s")).await });
    let error = soon(run).await.unwrap().unwrap_err();
    let Error::Panicked { kind, message } = &error else {
        panic!("{error}");
    };
    assert_eq!(*kind, Kind::of::<Service>());
    assert!(message.contains("no "), "{message}");
    assert!(error.to_string().contains("Service.v1 panicked"), "{error}");
    assert!(soon(read).await.unwrap().is_err());
    let error = world
        .cache
        .get::<Service>(&key("a", "s"))
        .await
        .unwrap_err();
    assert!(error.is_stopped(), "{error}");
    // The informers without a panic stop, too.
    soon(async { while subscription.next().await.is_some() {} }).await;
    assert_eq!(maps.state(), InformerState::Stopped);
}
