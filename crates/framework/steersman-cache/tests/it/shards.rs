//! A cache that holds only the objects of some slots.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use serde_json::json;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{ByObject, CacheOptions, Delivery, Error, ListOptions};
use steersman_object::{Kind, ObjectKey, ShardBy, ShardSlot, SlotSet};
use tokio::sync::watch;

use crate::world::{World, key, soon};

const BY: ShardBy = ShardBy::Namespace;

fn slot(namespace: &str) -> ShardSlot {
    BY.slot_of(&key(namespace, "x"))
}

fn slots<const N: usize>(namespaces: [&str; N]) -> SlotSet {
    let slots: SlotSet = namespaces.into_iter().map(slot).collect();
    assert_eq!(slots.len(), N, "the namespaces share a slot");
    slots
}

/// Creates a world with one ConfigMap and one Service in each of the namespaces `a` and `b`, and a cache that has
/// synced.
async fn world(wanted: SlotSet, options: CacheOptions) -> (World, watch::Sender<SlotSet>) {
    let (sender, slots) = watch::channel(wanted);
    let options = options
        .shards(BY, slots)
        .by_object::<Service>(ByObject::new().everywhere());
    let mut world = World::new(options);
    for namespace in ["a", "b"] {
        world.config_map(namespace, "x", &json!({}));
        world.service(namespace, "s");
    }
    world.cache.informers::<ConfigMap>().unwrap();
    world.cache.informers::<Service>().unwrap();
    world.cache.informers::<Namespace>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    (world, sender)
}

async fn maps(world: &World) -> Vec<String> {
    let listed = soon(world.cache.list::<ConfigMap>(&ListOptions::new()))
        .await
        .unwrap();
    let namespaces = listed
        .iter()
        .filter_map(|map| map.metadata.namespace.clone());
    let mut namespaces: Vec<String> = namespaces
        .filter(|namespace| matches!(namespace.as_str(), "a" | "b"))
        .collect();
    namespaces.sort();
    namespaces
}

// SHARD-9
#[tokio::test(start_paused = true)]
async fn shard_9_a_get_in_a_foreign_slot_is_an_error_and_a_list_returns_what_is_held() {
    let (world, _wanted) = world(slots(["a"]), CacheOptions::new()).await;
    let reads = world.cache.typed::<ConfigMap>();
    assert!(soon(reads.get(&key("a", "x"))).await.is_ok());
    let absent = soon(reads.get(&key("a", "absent"))).await.unwrap_err();
    assert!(absent.is_not_found(), "{absent}");
    let foreign = key("b", "x");
    for error in [
        soon(world.cache.get::<ConfigMap>(&foreign)).await.map(drop),
        soon(reads.get_opt(&foreign)).await.map(drop),
        soon(reads.get_with_version(&foreign)).await.map(drop),
    ] {
        let error = error.unwrap_err();
        assert!(error.is_foreign_slot() && !error.is_not_found(), "{error}");
        let text = error.to_string();
        let named = [
            "ConfigMap",
            "b/x",
            &slot("b").to_string(),
            "client.live()",
            "everywhere",
        ];
        assert!(named.iter().all(|part| text.contains(part)), "{text}");
    }
    assert_eq!(maps(&world).await, ["a"]);
    // A cluster-scoped object counts by its name: a Namespace is in the slot of its objects.
    let namespaces = world.cache.typed::<Namespace>();
    assert!(
        soon(namespaces.get(&ObjectKey::cluster_scoped("a")))
            .await
            .is_ok()
    );
    let other = soon(namespaces.get(&ObjectKey::cluster_scoped("b")))
        .await
        .unwrap_err();
    assert!(other.is_foreign_slot(), "{other}");
    // A kind that is cached everywhere is whole.
    for namespace in ["a", "b"] {
        assert!(
            soon(world.cache.get::<Service>(&key(namespace, "s")))
                .await
                .is_ok()
        );
    }
    assert_eq!(world.cache.shards_loaded(), slots(["a"]));
    world.stop().await.unwrap();
}

// SHARD-6, SHARD-9
#[tokio::test(start_paused = true)]
async fn shard_6_a_gained_slot_is_readable_when_it_is_loaded_and_a_lost_one_is_not() {
    let (world, wanted) = world(slots(["a"]), CacheOptions::new()).await;
    let mut subscription = world
        .cache
        .typed::<ConfigMap>()
        .subscribe()
        .unwrap()
        .remove(0);
    while !matches!(subscription.next().await.unwrap(), Delivery::Synced) {}
    let both = slots(["a", "b"]);
    // While the slot is wanted and not loaded, the error says so.
    wanted.send_replace(both);
    let error = soon(world.cache.get::<ConfigMap>(&key("b", "x")))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::ForeignSlot {
                is_wanted: true,
                ..
            }
        ),
        "{error}"
    );
    soon(world.cache.wait_for_shards(&both)).await;
    assert_eq!(world.cache.shards_loaded(), both);
    assert!(
        soon(world.cache.get::<ConfigMap>(&key("b", "x")))
            .await
            .is_ok()
    );
    assert_eq!(maps(&world).await, ["a", "b"]);
    wanted.send_replace(slots(["b"]));
    loop {
        if let Delivery::Released(key) = soon(subscription.next()).await.unwrap() {
            assert_eq!(key.namespace(), Some("a"));
            break;
        }
    }
    let error = soon(world.cache.get::<ConfigMap>(&key("a", "x")))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::ForeignSlot {
                is_wanted: false,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(maps(&world).await, ["b"]);
    assert_eq!(world.cache.shards_loaded(), slots(["b"]));
    world.stop().await.unwrap();
}

// SHARD-7
#[tokio::test(start_paused = true)]
async fn shard_7_a_cache_without_slots_syncs_and_requests_only_kinds_that_are_everywhere() {
    let (world, wanted) = world(SlotSet::EMPTY, CacheOptions::new()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = world.server.requests();
    let asked = |resource: &str| requests.count(|request| request.is_for(resource));
    assert_eq!((asked("configmaps"), asked("namespaces")), (0, 0));
    assert!(asked("services") > 0);
    assert!(maps(&world).await.is_empty());
    assert!(world.cache.shards_loaded().is_empty());
    wanted.send_replace(slots(["b"]));
    soon(world.cache.wait_for_shards(&slots(["b"]))).await;
    assert_eq!(maps(&world).await, ["b"]);
    world.stop().await.unwrap();
}

// SHARD-9
#[tokio::test(start_paused = true)]
async fn shard_9_the_filter_applies_to_the_informer_of_each_namespace() {
    let options = CacheOptions::new().default_namespaces(["a", "b"]);
    let (world, wanted) = world(slots(["a"]), options).await;
    assert_eq!(maps(&world).await, ["a"]);
    let error = soon(world.cache.get::<ConfigMap>(&key("b", "x")))
        .await
        .unwrap_err();
    assert!(error.is_foreign_slot(), "{error}");
    let outside = soon(world.cache.get::<ConfigMap>(&key("c", "x")))
        .await
        .unwrap_err();
    assert!(outside.is_outside_scope(), "{outside}");
    let both = slots(["a", "b"]);
    wanted.send_replace(both);
    soon(world.cache.wait_for_shards(&both)).await;
    assert_eq!(maps(&world).await, ["a", "b"]);
    world.stop().await.unwrap();
}

// SHARD-10
#[tokio::test(start_paused = true)]
async fn shard_10_no_informer_covers_the_keys_of_foreign_slots() {
    let (world, wanted) = world(slots(["a"]), CacheOptions::new()).await;
    let gvk = Kind::of::<ConfigMap>().gvk().clone();
    let is_covered = |namespace: &str| {
        let key = key(namespace, "x");
        let covered = world.cache.untyped_of(&gvk, &key).is_some();
        assert_eq!(covered, world.cache.membership(&gvk, &key, None).is_some());
        covered
    };
    assert!(is_covered("a") && !is_covered("b"));
    wanted.send_replace(slots(["b"]));
    assert!(!is_covered("a") && is_covered("b"));
    let services = Kind::of::<Service>().gvk().clone();
    assert!(world.cache.untyped_of(&services, &key("a", "s")).is_some());
    world.stop().await.unwrap();
}

// SHARD-9
#[tokio::test(start_paused = true)]
async fn shard_9_a_kind_that_never_synced_does_not_delay_the_slots_of_other_kinds() {
    let (sender, wanted) = watch::channel(slots(["a"]));
    let mut world = World::new(CacheOptions::new().shards(BY, wanted));
    world.cache.informers::<ConfigMap>().unwrap();
    // The definition of Websites is not installed.
    world.cache.informers::<crate::world::Website>().unwrap();
    world.start();
    soon(world.cache.wait_for_shards(&slots(["a"]))).await;
    let both = slots(["a", "b"]);
    sender.send_replace(both);
    soon(world.cache.wait_for_shards(&both)).await;
    world.install_websites();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.cache.shards_loaded(), both);
    world.stop().await.unwrap();
}
