//! CACHE-17: namespaces that are added to a running cache and removed from it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{ByObject, Cache, CacheOptions, Delivery, Error, ListOptions, Settings};
use steersman_object::Kind;

use crate::world::{World, asked, initial, key, soon};

/// Creates a world with a cache of the namespace `a`, which runs and has synced.
async fn world() -> World {
    let options = CacheOptions::new()
        .default_namespaces(["a"])
        .by_object::<Service>(ByObject::new().namespaces(["a"]));
    let mut world = World::new(options);
    for (namespace, name) in [("a", "in-a"), ("b", "in-b")] {
        world.config_map(namespace, name, &json!({"app": name}));
    }
    let cache = &world.cache;
    cache
        .index_field::<ConfigMap>("app", |config| {
            config.metadata.labels.as_ref()?.get("app").cloned()
        })
        .unwrap();
    cache.index_controller_uid::<ConfigMap>().unwrap();
    cache.informer::<Namespace>().unwrap();
    cache.informer::<Service>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    world
}

async fn names(cache: &Cache, list_options: &ListOptions) -> Result<Vec<String>, Error> {
    let listed = soon(cache.list::<ConfigMap>(list_options)).await?;
    let names = listed
        .iter()
        .filter_map(|config| config.metadata.name.clone());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// CACHE-17
#[tokio::test(start_paused = true)]
async fn an_added_namespace_is_cached_with_the_indexes_of_its_kinds() {
    let world = world().await;
    let everything = ListOptions::new();
    let reads = world.cache.typed::<ConfigMap>();
    assert_eq!(names(&world.cache, &everything).await.unwrap(), ["in-a"]);
    let error = soon(reads.get(&key("b", "in-b"))).await.unwrap_err();
    assert!(error.is_outside_scope(), "{error}");

    let mut changes = world.cache.scope_changes();
    assert!(world.cache.add_namespace("b").unwrap());
    assert!(!world.cache.add_namespace("b").unwrap());
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(world.cache.default_namespaces().unwrap(), ["a", "b"]);
    soon(world.cache.wait_for_sync()).await.unwrap();
    assert_eq!(
        names(&world.cache, &everything).await.unwrap(),
        ["in-a", "in-b"]
    );
    let indexed = ListOptions::new().index("app", "in-b");
    assert_eq!(names(&world.cache, &indexed).await.unwrap(), ["in-b"]);
    let controlled = ListOptions::new().controlled_by("none");
    assert!(names(&world.cache, &controlled).await.unwrap().is_empty());
    // `reads` is a handle from before the change.
    assert!(soon(reads.get(&key("b", "in-b"))).await.is_ok());
    assert_eq!(asked(&world, "configmaps"), ["a[][]", "b[][]"]);
    // Kinds with their own namespaces and cluster-scoped kinds keep their one informer.
    assert_eq!(asked(&world, "services"), ["a[][]"]);
    assert_eq!(asked(&world, "namespaces"), ["*[][]"]);
    assert!(!changes.has_changed().unwrap());
    world.stop().await.unwrap();
}

/// CACHE-17, CACHE-7
#[tokio::test(start_paused = true)]
async fn the_informers_of_a_removed_namespace_end_without_deletes_and_start_again_when_it_returns()
{
    let world = world().await;
    let settings = Settings::new().labels("app=in-b");
    world.cache.add_namespace_with("b", settings).unwrap();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let kind = Kind::of::<ConfigMap>();
    let informers = world
        .cache
        .informers_by_namespace::<ConfigMap>(&kind)
        .unwrap();
    let in_b = &informers[1];
    assert_eq!(in_b.namespace().map(|name| &**name), Some("b"));
    let mut subscription = in_b.subscribe();
    assert_eq!(soon(initial(&mut subscription)).await, 1);
    let reads = world.cache.typed::<ConfigMap>();

    assert!(world.cache.remove_namespace("b").unwrap());
    assert!(!world.cache.remove_namespace("b").unwrap());
    assert!(
        soon(subscription.next()).await.is_none(),
        "the end, and no delete"
    );
    assert_eq!(
        names(&world.cache, &ListOptions::new()).await.unwrap(),
        ["in-a"]
    );
    for read in [
        soon(world.cache.get::<ConfigMap>(&key("b", "in-b"))).await,
        soon(reads.get(&key("b", "in-b"))).await,
    ] {
        let error = read.unwrap_err();
        assert!(error.is_outside_scope(), "{error}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().open_watches("configmaps"), 1);

    world.cache.add_namespace("b").unwrap();
    assert_eq!(
        names(&world.cache, &ListOptions::new()).await.unwrap(),
        ["in-a", "in-b"]
    );
    let returned = world.cache.informers::<ConfigMap>().unwrap();
    let mut subscription = returned[1].subscribe();
    assert!(matches!(
        soon(subscription.next()).await,
        Some(Delivery::Event(_))
    ));
    assert_eq!(
        asked(&world, "configmaps"),
        ["a[][]", "b[][]", "b[app=in-b][]"]
    );
    world.stop().await.unwrap();
}

/// FAN-4, CACHE-17: waiting deliveries are dropped, and later events of the server are not applied, although the task
/// of the informer ends later. Many rounds, because the order of that end and of the events is random.
#[tokio::test(start_paused = true)]
async fn no_delivery_of_a_removed_namespace_is_taken_after_the_removal() {
    let world = world().await;
    let kind = Kind::of::<ConfigMap>();
    for round in 0..64 {
        world.cache.add_namespace("b").unwrap();
        soon(world.cache.wait_for_sync()).await.unwrap();
        let informers = world.cache.informers_by_namespace::<ConfigMap>(&kind);
        let in_b = informers.unwrap().pop().unwrap();
        let stored = in_b.informer().as_store().entries(None).len();
        let mut subscription = in_b.subscribe();
        assert!(subscription.waiting() > 0);
        assert!(!in_b.was_removed() && !in_b.has_left_scope());
        world.cache.remove_namespace("b").unwrap();
        assert!(in_b.was_removed() && in_b.has_left_scope());
        world.config_map("b", &format!("late-{round}"), &json!({}));
        assert!(soon(subscription.next()).await.is_none());
        // The same after the task of the informer has ended.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(soon(in_b.subscribe().next()).await.is_none());
        assert_eq!(in_b.informer().as_store().entries(None).len(), stored);
    }
    world.stop().await.unwrap();
}

/// CACHE-17: `Cache::remove` ends informers of namespaces that stay.
#[tokio::test(start_paused = true)]
async fn a_removed_kind_has_not_left_the_scope() {
    let world = world().await;
    let kind = Kind::of::<ConfigMap>();
    let informers = world.cache.informers_by_namespace::<ConfigMap>(&kind);
    let informer = informers.unwrap().pop().unwrap();
    world.cache.remove::<ConfigMap>();
    assert!(informer.was_removed() && !informer.has_left_scope());
    world.stop().await.unwrap();
}

#[test]
fn the_scope_of_a_cache_stays_limited_or_unlimited() {
    let all = Cache::new(CacheOptions::new()).unwrap();
    assert_eq!(all.default_namespaces(), None);
    let others = CacheOptions::new()
        .default_namespaces(["a"])
        .default_other_namespaces(Settings::new());
    let others = Cache::new(others).unwrap();
    for cache in [&all, &others] {
        for refused in [cache.add_namespace("b"), cache.remove_namespace("a")] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("holds all namespaces"), "{error}");
        }
    }
    let limited = Cache::new(CacheOptions::new().default_namespaces(["a"])).unwrap();
    let empty = limited.add_namespace("").unwrap_err().to_string();
    assert!(empty.contains("the name is empty"), "{empty}");
    let last = limited.remove_namespace("a").unwrap_err().to_string();
    assert!(last.contains("it is the last one"), "{last}");
    // Declared before the cache runs.
    limited.informers::<ConfigMap>().unwrap();
    assert!(limited.add_namespace("b").unwrap());
    assert_eq!(limited.informer_reports().len(), 2);
    assert!(limited.remove_namespace("a").unwrap());
    assert_eq!(limited.informer_reports().len(), 1);
    assert_eq!(limited.default_namespaces().unwrap(), ["b"]);
}

/// CACHE-17: a read on another thread either finds the object or fails because it is outside the scope, and no informer
/// of the removed namespace stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn reads_during_changes_of_the_scope_leave_no_informer_behind() {
    let world = world().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (cache, stop) = (world.cache.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let read = cache.get::<ConfigMap>(&key("b", "in-b")).await;
                    let fits = read.as_ref().map_or_else(
                        |error| error.is_outside_scope() || error.is_unavailable(),
                        |config| config.metadata.name.as_deref() == Some("in-b"),
                    );
                    assert!(fits, "{read:?}");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..50 {
        world.cache.add_namespace("b").unwrap();
        tokio::task::yield_now().await;
        world.cache.remove_namespace("b").unwrap();
        tokio::task::yield_now().await;
    }
    stop.cancel();
    for reader in readers {
        reader.await.unwrap();
    }
    let reports = world.cache.informer_reports();
    let left = reports
        .iter()
        .filter(|report| report.namespace.as_deref() == Some("b"));
    assert_eq!(left.count(), 0);
    world.stop().await.unwrap();
}

/// CACHE-17: the namespace is removed while a read of all namespaces waits for its first list.
#[tokio::test(start_paused = true)]
async fn a_read_of_all_namespaces_leaves_out_a_namespace_that_is_removed_meanwhile() {
    let world = world().await;
    let slow = Duration::from_secs(20);
    let _delay = world.server.faults().delay(None, "configmaps", slow);
    let cache = &world.cache;
    // Dynamic objects have no view yet, so their keys are read without a view.
    let everything = ListOptions::new();
    let kind = Kind::of::<ConfigMap>();
    let dynamic = cache.of::<DynamicObject>(&kind);
    let indexed = ListOptions::new().index("app", "in-a");
    let of_b = ListOptions::new().namespace("b");
    let typed = cache.typed::<ConfigMap>();
    cache.add_namespace("b").unwrap();
    let reads = async {
        tokio::join!(
            cache.list::<ConfigMap>(&everything),
            typed.keys(&everything),
            dynamic.keys(&everything),
            typed.keys(&indexed),
            typed.index_values("app"),
            cache.list::<ConfigMap>(&of_b),
        )
    };
    let remove = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cache.remove_namespace("b").unwrap();
    };
    let ((listed, keys, dynamic_keys, indexed_keys, values, in_b), ()) =
        tokio::join!(reads, remove);
    assert_eq!(listed.unwrap().len(), 1);
    assert_eq!(keys.unwrap(), [key("a", "in-a")]);
    assert_eq!(dynamic_keys.unwrap(), [key("a", "in-a")]);
    assert_eq!(indexed_keys.unwrap(), [key("a", "in-a")]);
    assert_eq!(values.unwrap().len(), 1);
    assert!(in_b.is_err(), "a read of the removed namespace alone");
    world.stop().await.unwrap();
}
