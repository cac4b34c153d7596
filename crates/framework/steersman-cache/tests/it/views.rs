//! Typed, dynamic and metadata-only reads over one informer, and their selections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube_core::DynamicObject;
use kube_core::object::{NotUsed, Object};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use steersman_apiserver::faults::RequestRecord;
use steersman_cache::{ByObject, CacheOptions, Error, IndexKey, ListOptions, Settings};
use steersman_object::{Kind, LabelSelector};

use crate::world::{Website, World, initial, key, shares};

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_reads_cause_one_watch_list() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "x", &json!({"l": "v"}));
    let kind = Kind::of::<ConfigMap>();
    let typed = world.cache.informer::<ConfigMap>().unwrap();
    let dynamic = world.cache.of::<DynamicObject>(&kind);
    let metadata = world.cache.metadata::<ConfigMap>();
    // A dynamic view keeps fields that only JSON has, so it is declared before the informer starts.
    let _declared = dynamic.informers().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let x = key("a", "x");
    let map = world.cache.get::<ConfigMap>(&x).await.unwrap();
    let any = dynamic.get(&x).await.unwrap();
    let meta = metadata.get(&x).await.unwrap();
    assert_eq!(any.types.as_ref().unwrap().kind, "ConfigMap");
    assert!(map.metadata == any.metadata && map.metadata == meta.metadata);
    assert!(dynamic.get_opt(&key("a", "y")).await.unwrap().is_none());
    for informer in dynamic.informers().unwrap() {
        assert_eq!(initial(&mut informer.subscribe()).await, 1);
    }
    assert_eq!(initial(&mut typed.subscribe()).await, 1);
    let requests = world.server.requests();
    assert_eq!(
        requests.count(|r| r.is_for("configmaps")),
        1,
        "{:?}",
        requests.all()
    );
    world.stop().await.unwrap();
}

/// VIEW-3
#[tokio::test(start_paused = true)]
async fn view_3_requests_ask_for_metadata_until_more_is_read() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "x", &json!({"l": "v"}));
    let metadata = world.cache.metadata::<ConfigMap>();
    metadata.informers().unwrap();
    world.start();
    let meta = metadata.get(&key("a", "x")).await.unwrap();
    assert_eq!(meta.metadata.labels.as_ref().unwrap()["l"], "v");
    let asked = || {
        let requests = world.server.requests();
        let asked = requests.matching(|r| r.is_for("configmaps"));
        let asked = asked.iter().map(RequestRecord::is_metadata_only);
        asked.collect::<Vec<bool>>()
    };
    assert_eq!(asked(), [true]);
    // A reader needs whole objects: metadata stays readable, and the new list has whole objects.
    world.cache.informer::<ConfigMap>().unwrap();
    let map = world.cache.get::<ConfigMap>(&key("a", "x")).await.unwrap();
    assert_eq!(map.metadata, meta.metadata);
    let again = metadata.get(&key("a", "x")).await.unwrap();
    assert_eq!(meta.metadata, again.metadata);
    assert_eq!(Arc::ptr_eq(&meta, &again), shares());
    assert_eq!(asked(), [true, false]);
    world.stop().await.unwrap();
}

const TEAM: IndexKey<ConfigMap, String> = IndexKey::new("team");

/// CACHE-9: a selection by another type's index must not use an index of the same name.
#[tokio::test(start_paused = true)]
async fn a_typed_index_key_fits_only_reads_of_its_type() {
    let mut world = World::new(CacheOptions::new());
    let none = |_: &Service| Some("red".to_owned());
    world.cache.index_field::<Service>("team", none).unwrap();
    world.start();
    let red = ListOptions::new().by(&TEAM, "red");
    let error = world.cache.list::<Service>(&red).await.unwrap_err();
    assert!(matches!(error, Error::IndexOfAnother { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("::Service") && text.contains("::ConfigMap") && text.contains("team"),
        "{text}"
    );
    let reads = world.cache.of::<Service>(&Kind::of::<Service>());
    let error = reads.keys(&red).await.unwrap_err();
    assert!(matches!(error, Error::IndexOfAnother { .. }), "{error}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn label_indexes_of_the_options_serve_reads_of_every_type() {
    let closer = Settings::new().index_labels(["team"]);
    let by_object = ByObject::new().index_labels(["tier", "tier"]);
    let by_object = by_object
        .namespace("b", closer)
        .other_namespaces(Settings::new());
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(by_object));
    for (namespace, name, labels) in [
        ("a", "one", json!({"team": "red", "tier": "front"})),
        ("a", "two", json!({"team": "red"})),
        ("b", "three", json!({"team": "red", "tier": "front"})),
    ] {
        world.config_map(namespace, name, &labels);
    }
    world.start();
    let kind = Kind::of::<ConfigMap>();
    let (typed, metadata) = (
        world.cache.of::<ConfigMap>(&kind),
        world.cache.metadata::<ConfigMap>(),
    );
    let named = |name: &str, value: &str| ListOptions::new().index(name, value);
    let front = typed.list(&named("tier", "front").namespace("a")).await;
    assert_eq!(front.unwrap().items.len(), 1);
    let red = metadata.list(&named("team", "red").namespace("b")).await;
    assert_eq!(red.unwrap().items.len(), 1);
    // The setting of the namespace applies, which is the most specific one.
    let unsaid = typed.list(&named("tier", "front").namespace("b")).await;
    assert!(matches!(unsaid, Err(Error::NoIndex { .. })));
    // Selectors select the same objects with and without an index.
    for (selector, expected) in [("tier=front", 2), ("team in (red)", 3), ("tier", 2)] {
        let options = ListOptions::new().labels(selector.parse().unwrap());
        assert_eq!(typed.list(&options).await.unwrap().items.len(), expected);
        assert_eq!(metadata.keys(&options).await.unwrap().len(), expected);
    }
    let nameless = world.cache.index_label::<ConfigMap>("");
    assert!(matches!(nameless, Err(Error::IndexWithoutName { .. })));
    world.stop().await.unwrap();
}

/// CACHE-13
#[tokio::test(start_paused = true)]
async fn cache_13_a_refused_index_declares_no_kind_and_exists_in_no_namespace() {
    let closer = Settings::new().index_labels(["team"]);
    let maps = ByObject::new().namespace("a", Settings::new());
    let maps = maps.namespace("b", closer);
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(maps));
    let nameless = world.cache.index_field::<Service>("", |_| None);
    assert!(matches!(nameless, Err(Error::IndexWithoutName { .. })));
    assert!(world.cache.all_unsynced().is_empty());
    // One of the two namespaces already has an index of this name.
    let again = world.cache.index_label::<ConfigMap>("team").unwrap_err();
    assert!(matches!(again, Error::IndexExists { .. }), "{again}");
    world.start();
    let team = |namespace: &str| ListOptions::new().index("team", "red").namespace(namespace);
    let listed = world.cache.list::<ConfigMap>(&team("b")).await.unwrap();
    assert!(listed.is_empty());
    let listed = world.cache.list::<ConfigMap>(&team("a")).await;
    assert!(matches!(listed, Err(Error::NoIndex { .. })), "{listed:?}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn conditions_combine_and_keys_and_index_values_decode_nothing() {
    let mut world = World::new(CacheOptions::new());
    for (namespace, name, labels) in [
        ("a", "one", json!({"team": "red", "tier": "front"})),
        ("a", "two", json!({"team": "red"})),
        ("b", "three", json!({"team": "red", "tier": "front"})),
        ("b", "four", json!({"team": "blue", "tier": "front"})),
    ] {
        world.config_map(namespace, name, &labels);
    }
    let team = |map: &ConfigMap| {
        let labels = map.metadata.labels.iter();
        labels
            .filter_map(|labels| labels.get("team").cloned())
            .collect()
    };
    world.cache.index_by(&TEAM, team).unwrap();
    world.cache.index_label::<ConfigMap>("tier").unwrap();
    world.cache.index_labels::<ConfigMap>().unwrap();
    world.cache.index_labels::<ConfigMap>().unwrap();
    let again = world.cache.index_label::<ConfigMap>("team").unwrap_err();
    assert!(matches!(again, Error::IndexExists { .. }), "{again}");
    let nameless = world.cache.index_field::<ConfigMap>("", |_| None);
    assert!(matches!(nameless, Err(Error::IndexWithoutName { .. })));
    world.start();
    let reads = world.cache.of::<ConfigMap>(&Kind::of::<ConfigMap>());
    let red = ListOptions::new().by(&TEAM, "red");
    let keys = async |options: ListOptions| -> Vec<String> {
        let keys = reads.keys(&options).await.unwrap();
        keys.iter().map(ToString::to_string).collect()
    };
    assert_eq!(keys(red.clone()).await, ["a/one", "a/two", "b/three"]);
    let front = red.clone().index("tier", "front");
    assert_eq!(keys(front.clone()).await, ["a/one", "b/three"]);
    assert_eq!(keys(front.clone().namespace("b")).await, ["b/three"]);
    assert_eq!(keys(red.clone().limit(2)).await, ["a/one", "a/two"]);
    let labels: LabelSelector = "tier=front,team notin (blue)".parse().unwrap();
    assert_eq!(
        keys(ListOptions::new().labels(labels)).await,
        ["a/one", "b/three"]
    );
    let values: Vec<String> = reads
        .index_values("team")
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(values, ["blue", "red"]);
    let listed = reads.list(&front).await.unwrap();
    assert_eq!((listed.len(), listed.versions.len()), (2, 1));
    let store = world.cache.informer::<ConfigMap>().unwrap().store();
    assert_eq!(listed.versions[0], (None, store.version()));
    let mut seen = 0;
    reads.for_each(&red, |_| seen += 1).await.unwrap();
    assert_eq!(seen, 3);
    for read in [
        reads
            .keys(&front.clone().index("none", "x"))
            .await
            .map(drop),
        reads.index_values("none").await.map(drop),
    ] {
        let error = read.unwrap_err();
        assert!(error.to_string().contains("\"none\""), "{error}");
    }
    // Empty index buckets are removed.
    world.server.delete("configmaps", "b", "four").unwrap();
    let mut events = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    initial(&mut events).await;
    while reads.index_values("team").await.unwrap().len() > 1 {
        tokio::task::yield_now().await;
    }
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owners_are_found_by_their_uid() {
    let mut world = World::new(CacheOptions::new());
    // The owners must exist, because the server deletes objects without existing owners.
    let uid = |name: &str| {
        world.config_map("a", name, &json!({}));
        let owner = world.server.get("configmaps", "a", name).unwrap();
        owner["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let (first, second) = (uid("first"), uid("second"));
    for (name, owner, uid, controller) in [
        ("one", "first", &first, true),
        ("two", "first", &first, false),
        ("three", "second", &second, true),
    ] {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]},
            "metadata": {"namespace": "a", "name": name, "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
                "controller": controller,
            }]},
        });
        world.server.create(service).unwrap();
    }
    world.cache.index_owner_uids::<Service>().unwrap();
    world.cache.index_controller_uid::<Service>().unwrap();
    world.start();
    let reads = world.cache.of::<Service>(&Kind::of::<Service>());
    let names = async |options: ListOptions| -> Vec<String> {
        let keys = reads.keys(&options).await.unwrap();
        keys.iter().map(|key| key.name().to_owned()).collect()
    };
    assert_eq!(
        names(ListOptions::new().owned_by(&first)).await,
        ["one", "two"]
    );
    assert_eq!(
        names(ListOptions::new().controlled_by(&first)).await,
        ["one"]
    );
    world.stop().await.unwrap();
}

/// The number of existing specs, and the number of specs ever created.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);

/// A spec that counts its instances. No other test reads as this type.
#[derive(Debug, Serialize)]
struct CountedSpec;

impl<'de> Deserialize<'de> for CountedSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        ALIVE.fetch_add(1, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        Ok(Self)
    }
}

impl Clone for CountedSpec {
    fn clone(&self) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for CountedSpec {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// VIEW-4, VIEW-5
#[tokio::test(start_paused = true)]
async fn view_5_a_pass_caches_no_decoded_objects_and_shares_the_objects_of_a_view() {
    let alive = || ALIVE.load(Ordering::Relaxed);
    let made = || MADE.load(Ordering::Relaxed);
    let mut world = World::under_own_budget(CacheOptions::new().decoded_budget(None));
    for name in ["one", "two", "three"] {
        world.service("a", name);
    }
    world.start();
    let all = ListOptions::new();
    let metadata = world.cache.metadata::<Service>();
    assert_eq!(metadata.keys(&all).await.unwrap().len(), 3);
    // The read has made the informer request whole objects.
    let reads = world
        .cache
        .of::<Object<CountedSpec, NotUsed>>(&Kind::of::<Service>());
    let mut most = 0;
    let mut pass = async |options: &ListOptions| {
        let mut names = Vec::new();
        let pass = reads.for_each(options, |service| {
            names.push(service.metadata.name.clone().unwrap());
            most = most.max(alive());
        });
        pass.await.unwrap();
        (names, most)
    };
    let names = ["one", "three", "two"].map(str::to_owned).to_vec();
    assert_eq!(pass(&all).await, (names.clone(), 1));
    assert_eq!((alive(), made()), (0, 3));
    let few = all.clone().namespace("a").limit(2);
    assert_eq!(pass(&few).await, (names[..2].to_vec(), 1));
    assert_eq!((alive(), made()), (0, 5));
    assert_eq!(reads.keys(&all).await.unwrap().len(), 3);
    world.service("a", "zero");
    while reads.keys(&all).await.unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!((alive(), made()), (0, 5));
    // A list creates a view, which keeps objects decoded, and later passes share these objects. The first four objects
    // of a type are decoded twice, to estimate their size.
    drop(reads.list(&all).await.unwrap());
    assert_eq!((alive(), made()), (4, 13));
    assert_eq!(pass(&all).await.0.len(), 4);
    assert_eq!((alive(), made()), (4, 13));
    tokio::time::sleep(Duration::from_secs(660)).await;
    world.service("a", "last");
    while metadata.keys(&all).await.unwrap().len() < 5 {
        tokio::task::yield_now().await;
    }
    assert_eq!((alive(), made()), (0, 13));
    world.stop().await.unwrap();
}

/// CACHE-4
#[tokio::test(start_paused = true)]
async fn a_pass_over_an_unreadable_object_fails() {
    let mut world = World::new(CacheOptions::new());
    world.install_loose_websites();
    for (name, image) in [("a", json!("x")), ("b", json!(7)), ("c", json!("y"))] {
        world.website(name, &image);
    }
    world.start();
    let reads = world.cache.of::<Website>(&Kind::of::<Website>());
    let pass = async |options: &ListOptions| {
        let mut names = Vec::new();
        let pass = reads.for_each(options, |site| {
            names.push(site.metadata.name.clone().unwrap())
        });
        let result = pass.await.map(drop).map_err(|error| error.is_malformed());
        (names.concat(), result)
    };
    let (all, readable) = (ListOptions::new(), ListOptions::new().skip_malformed());
    assert_eq!(pass(&all).await, ("a".to_owned(), Err(true)));
    assert_eq!(pass(&readable).await, ("ac".to_owned(), Ok(())));
    assert_eq!(reads.keys(&all).await.unwrap().len(), 3);
    // With a view, the error is known before the pass.
    assert!(reads.list(&all).await.unwrap_err().is_malformed());
    assert_eq!(pass(&all).await, (String::new(), Err(true)));
    assert_eq!(pass(&readable).await, ("ac".to_owned(), Ok(())));
    assert!(reads.keys(&all).await.unwrap_err().is_malformed());
    world.stop().await.unwrap();
}

/// CACHE-3
#[tokio::test(start_paused = true)]
async fn no_read_method_circumvents_the_guard_of_secrets() {
    let mut world = World::new(CacheOptions::new());
    world.start();
    let kind = Kind::of::<Secret>();
    let error = world
        .cache
        .of::<DynamicObject>(&kind)
        .get(&key("a", "s"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::MustBeDeclared { .. }), "{error}");
    world.stop().await.unwrap();
}
