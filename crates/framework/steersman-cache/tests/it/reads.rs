//! The results of reads: objects and errors.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube_core::{ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_cache::{ByObject, CacheOptions, Error, ListOptions};
use steersman_object::{FieldSelector, Kind, LabelSelector, ObjectKey};

use crate::world::{Website, World, event_of, key, shares, soon};

fn front() -> LabelSelector {
    "tier=front".parse().unwrap()
}

fn names(found: &[Arc<ConfigMap>]) -> Vec<&str> {
    let mut names: Vec<&str> = found
        .iter()
        .filter_map(|c| c.metadata.name.as_deref())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test(start_paused = true)]
async fn lists_select_by_namespace_labels_and_index() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "one", &json!({"app": "web", "tier": "front"}));
    world.config_map("a", "two", &json!({"app": "web"}));
    world.config_map("b", "three", &json!({"app": "web"}));
    world.config_map("b", "four", &json!({}));
    let by_app = |c: &ConfigMap| c.metadata.labels.as_ref()?.get("app").cloned();
    world.cache.index_field::<ConfigMap>("app", by_app).unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    // The index is registered while the cache runs, and includes stored objects.
    let keys = |c: &ConfigMap| {
        c.metadata
            .labels
            .iter()
            .flatten()
            .map(|(k, v)| format!("{k}={v}"))
            .collect()
    };
    world
        .cache
        .index_values::<ConfigMap>("label", keys)
        .unwrap();

    for (options, expected) in [
        (ListOptions::new(), vec!["four", "one", "three", "two"]),
        (
            ListOptions::new().namespace(""),
            vec!["four", "one", "three", "two"],
        ),
        (ListOptions::new().namespace("a"), vec!["one", "two"]),
        (ListOptions::new().labels(front()), vec!["one"]),
        (
            ListOptions::new().index("app", "web"),
            vec!["one", "three", "two"],
        ),
        (
            ListOptions::new().index("app", "web").namespace("b"),
            vec!["three"],
        ),
        (
            ListOptions::new().index("app", "web").labels(front()),
            vec!["one"],
        ),
        (ListOptions::new().index("label", "tier=front"), vec!["one"]),
        (ListOptions::new().index("app", "none"), vec![]),
    ] {
        let found = world.cache.list::<ConfigMap>(&options).await.unwrap();
        assert_eq!(names(&found), expected, "{options:?}");
    }
    let unknown = ListOptions::new().index("owner", "x");
    let error = world.cache.list::<ConfigMap>(&unknown).await.unwrap_err();
    assert!(matches!(error, Error::NoIndex { .. }), "{error}");
    let fields = FieldSelector::new().equals("metadata.name", "one");
    let by_field = ListOptions::new().fields(fields);
    let error = world.cache.list::<ConfigMap>(&by_field).await.unwrap_err();
    assert!(matches!(error, Error::FieldsNeedServer { .. }), "{error}");
    let error = world
        .cache
        .index_field::<ConfigMap>("app", |_| None)
        .unwrap_err();
    assert!(matches!(error, Error::IndexExists { .. }), "{error}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_follows_the_server() {
    let mut world = World::new(CacheOptions::new());
    let mut events = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let c = key("a", "c");
    assert!(
        world
            .cache
            .get_opt::<ConfigMap>(&c)
            .await
            .unwrap()
            .is_none()
    );
    world.config_map("a", "c", &json!({}));
    event_of(&mut events, &c).await;
    let one = world.cache.get::<ConfigMap>(&c).await.unwrap();
    let two = world.cache.get::<ConfigMap>(&c).await.unwrap();
    assert_eq!(one, two);
    // Reads share one object instead of copying it.
    assert_eq!(Arc::ptr_eq(&one, &two), shares());
    world.server.delete("configmaps", "a", "c").unwrap();
    event_of(&mut events, &c).await;
    let error = world.cache.get::<ConfigMap>(&c).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.scoped_by(), None);
    assert_eq!(
        error.to_string(),
        "ConfigMap.v1 a/c was not found in the cache"
    );
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn not_found_under_a_selector_names_the_selector() {
    let scoped = ByObject::new().labels("app=web");
    let world = World::synced(CacheOptions::new().by_object::<ConfigMap>(scoped)).await;
    world.config_map("a", "seen", &json!({"app": "web"}));
    world.config_map("a", "hidden", &json!({}));
    world
        .cache
        .get::<ConfigMap>(&key("a", "seen"))
        .await
        .unwrap();
    let error = world
        .cache
        .get::<ConfigMap>(&key("a", "hidden"))
        .await
        .unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.scoped_by(), Some("labels \"app=web\""));
    assert!(error.to_string().contains("it may exist"), "{error}");
    world.stop().await.unwrap();
}

/// CACHE-3
#[tokio::test(start_paused = true)]
async fn secrets_are_read_only_after_a_declaration() {
    let world = World::synced(CacheOptions::new()).await;
    let error = world.cache.get::<Secret>(&key("a", "s")).await.unwrap_err();
    assert!(matches!(error, Error::MustBeDeclared { .. }), "{error}");
    assert!(
        error.to_string().contains(".by_object::<Secret>"),
        "{error}"
    );
    assert_eq!(world.server.requests().count(|r| r.is_for("secrets")), 0);
    world.cache.informer::<Secret>().unwrap();
    assert!(
        world
            .cache
            .get_opt::<Secret>(&key("a", "s"))
            .await
            .unwrap()
            .is_none()
    );
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_before_the_start_fails_and_declares_the_kind() {
    let mut world = World::new(CacheOptions::new());
    let error = world
        .cache
        .get::<Service>(&key("a", "s"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotStarted { .. }), "{error}");
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    assert_eq!(world.server.requests().watch_lists("services"), 1);
    assert!(
        world
            .cache
            .get_opt::<Service>(&key("a", "s"))
            .await
            .unwrap()
            .is_none()
    );
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_a_key_follows_the_scope_of_its_kind() {
    let world = World::synced(CacheOptions::new()).await;
    // The namespace in the key of a cluster-scoped object is ignored.
    let found = world.cache.get::<Namespace>(&key("b", "a")).await.unwrap();
    assert_eq!(found.metadata.name.as_deref(), Some("a"));
    let error = world
        .cache
        .get::<Service>(&ObjectKey::cluster_scoped("s"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NamespaceMissing { .. }), "{error}");
    let uncached = CacheOptions::new().by_object::<Service>(ByObject::new().uncached());
    let live = World::synced(uncached).await;
    let error = live.cache.get::<Service>(&key("a", "s")).await.unwrap_err();
    assert!(matches!(error, Error::NotCached { .. }), "{error}");
    // An uncached kind is not read through the informer of a controller either.
    live.cache.informer::<Service>().unwrap();
    live.cache.wait_for_sync().await.unwrap();
    let (reads, all) = (
        live.cache.of::<Service>(&Kind::of::<Service>()),
        ListOptions::new(),
    );
    let error = reads.for_each(&all, |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::NotCached { .. }), "{error}");
    let error = reads.keys(&all).await.unwrap_err();
    assert!(matches!(error, Error::NotCached { .. }), "{error}");
    live.stop().await.unwrap();
    world.stop().await.unwrap();
}

/// CACHE-4
#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_not_absent_and_others_stay_readable() {
    let mut world = World::new(CacheOptions::new());
    // The server's schema accepts objects that do not decode as the Rust type.
    world.install_loose_websites();
    world.website("good", &json!("nginx"));
    world.website("bad", &json!(1));
    let mut events = world.cache.informer::<Website>().unwrap().subscribe();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    world.cache.get::<Website>(&key("a", "good")).await.unwrap();
    let error = world
        .cache
        .get_opt::<Website>(&key("a", "bad"))
        .await
        .unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert!(error.to_string().contains("a/bad"), "{error}");
    // CACHE-4: a caller that compares objects with a list must not take an unreadable object for an absent object.
    let in_a = ListOptions::new().namespace("a");
    for options in [ListOptions::new(), in_a.clone(), in_a.labels(front())] {
        let error = world.cache.list::<Website>(&options).await.unwrap_err();
        assert!(error.is_malformed(), "{options:?}: {error}");
        assert!(error.to_string().contains("a/bad"), "{error}");
    }
    let elsewhere = ListOptions::new().namespace("b");
    let none = world.cache.list::<Website>(&elsewhere).await.unwrap();
    assert!(none.is_empty());
    let everything = ListOptions::new();
    let readable = everything.clone().skip_malformed();
    let found = world.cache.list::<Website>(&readable).await.unwrap();
    assert_eq!(found.len(), 1);
    let healed = json!({"spec": {"image": "nginx"}});
    world
        .server
        .merge_patch("websites.web.example.com", "a", "bad", &healed)
        .unwrap();
    event_of(&mut events, &key("a", "bad")).await;
    world.cache.get::<Website>(&key("a", "bad")).await.unwrap();
    let found = world.cache.list::<Website>(&everything).await.unwrap();
    assert_eq!(found.len(), 2);

    // An object that was readable before keeps its last good state.
    let broken = json!({"spec": {"image": 1}});
    world
        .server
        .merge_patch("websites.web.example.com", "a", "bad", &broken)
        .unwrap();
    let store = world.cache.informer::<Website>().unwrap().store();
    soon(async {
        while store.malformed().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let found = world.cache.list::<Website>(&everything).await.unwrap();
    assert_eq!(found.len(), 2);
    world.stop().await.unwrap();
}

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// A type that counts the calls for the name of its kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
struct NameCountingConfigMap(ConfigMap);

impl Resource for NameCountingConfigMap {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_build_the_names_of_its_kind() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    world.cache.informer::<NameCountingConfigMap>().unwrap();
    world.start();
    world
        .cache
        .get::<NameCountingConfigMap>(&key("a", "c"))
        .await
        .unwrap();
    let before = ASKED.load(Ordering::Relaxed);
    for _ in 0..10 {
        world
            .cache
            .get::<NameCountingConfigMap>(&key("a", "c"))
            .await
            .unwrap();
        world
            .cache
            .list::<NameCountingConfigMap>(&ListOptions::new())
            .await
            .unwrap();
        assert!(world.cache.typed::<NameCountingConfigMap>().is_cached());
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), before);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_from_the_call_of_run_until_the_cache_stops() {
    let world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    world.cache.informer::<ConfigMap>().unwrap();
    let begun = world.cache.begin().unwrap();
    let again = world.cache.begin().unwrap_err();
    assert!(matches!(again, Error::AlreadyRan), "{again}");
    let reader = world.cache.clone();
    let read = tokio::spawn(async move { reader.get::<ConfigMap>(&key("a", "c")).await });
    tokio::task::yield_now().await;
    assert!(!read.is_finished());
    drop(begun);
    let error = soon(read).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
}

/// Every read is also available with its resource version, with a view of the kind and without one.
#[tokio::test(start_paused = true)]
async fn every_read_returns_its_resource_version() {
    let options = CacheOptions::new().default_namespaces(["a", "b"]);
    let mut world = World::new(options);
    world.cache.metadata::<ConfigMap>().informers().unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let (all, here) = (ListOptions::new(), key("a", "c"));
    let reads = world.cache.of::<ConfigMap>(&Kind::of::<ConfigMap>());
    let (passed, before) = soon(reads.keys_with_versions(&all)).await.unwrap();
    assert!(passed.is_empty());
    assert_eq!(
        soon(reads.for_each(&all, |_| {})).await.unwrap(),
        before,
        "nothing happened"
    );
    let places: Vec<_> = before.iter().map(|(place, _)| place.as_deref()).collect();
    assert_eq!(places, [Some("a"), Some("b")]);
    let (absent, at) = soon(reads.get_with_version(&here)).await.unwrap();
    assert_eq!((absent, &at), (None, &before[0].1));

    let mut subscription = reads.informers().unwrap()[0].subscribe();
    world.config_map("a", "c", &json!({}));
    soon(event_of(&mut subscription, &here)).await;
    let (found, newer) = reads.get_with_version(&here).await.unwrap();
    let version = found.unwrap().metadata.resource_version.clone().unwrap();
    assert_eq!(newer.to_string(), version);
    assert!(!at.is_at_least(&newer));
    let expected = [(Some("a".into()), newer), before[1].clone()];
    assert_eq!(reads.keys_with_versions(&all).await.unwrap().1, expected);
    assert_eq!(reads.for_each(&all, |_| {}).await.unwrap(), expected);
    assert_eq!(reads.list(&all).await.unwrap().versions, expected);
    world.stop().await.unwrap();
}

/// CACHE-12
#[tokio::test(start_paused = true)]
async fn a_read_of_many_packed_objects_yields_to_other_tasks() {
    const OBJECTS: usize = 2000;
    let mut world = World::under_own_budget(CacheOptions::new().decoded_budget(0));
    for n in 0..OBJECTS {
        world.config_map("a", &format!("c{n:04}"), &json!({}));
    }
    let reads = world.cache.of::<ConfigMap>(&Kind::of::<ConfigMap>());
    reads.informers().unwrap();
    world.start();
    let all = ListOptions::new();
    assert_eq!(soon(reads.keys(&all)).await.unwrap().len(), OBJECTS);
    let turns = Arc::new(AtomicUsize::new(0));
    let counting = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let mut seen = 0;
    reads.for_each(&all, |_| seen += 1).await.unwrap();
    let passed = turns.swap(0, Ordering::Relaxed);
    assert_eq!(reads.list(&all).await.unwrap().len(), OBJECTS);
    let listed = turns.swap(0, Ordering::Relaxed);
    // A poll may take about a hundred objects before it yields.
    assert!(
        seen == OBJECTS && passed >= 10 && listed >= 10,
        "{passed}, {listed}"
    );
    counting.abort();
    world.stop().await.unwrap();
}
