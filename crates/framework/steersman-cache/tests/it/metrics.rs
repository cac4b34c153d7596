//! The metrics of a cache after known events.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use prometheus::Registry;
use serde_json::json;
use steersman_apiserver::faults::Answer;
use steersman_cache::{ByObject, CacheMetrics, CacheOptions, ListOptions};
use steersman_object::Kind;

use crate::world::{World, key, soon};

fn counted() -> (Registry, CacheOptions) {
    let registry = Registry::new();
    let metrics = CacheMetrics::register(&registry).unwrap();
    assert!(CacheMetrics::register(&registry).is_err());
    (registry, CacheOptions::new().metrics(metrics))
}

/// Returns the series of one family as sorted lines `label… value`; for a histogram, the count and
/// the sum.
fn of(registry: &Registry, name: &str) -> Vec<String> {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name);
    let metrics = family.map_or(&[][..], |family| family.get_metric());
    let lines = metrics.iter().map(|metric| {
        let labels = metric.get_label().iter();
        let labels: String = labels.map(|label| format!("{} ", label.value())).collect();
        let histogram = metric.get_histogram();
        let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
        match histogram.get_sample_count() {
            0 => format!("{labels}{value}"),
            count => format!("{labels}{count} {:.3}", histogram.get_sample_sum()),
        }
    });
    lines.collect()
}

async fn absent(world: &World) {
    let read = soon(world.cache.get_opt::<Service>(&key("a", "s"))).await;
    assert!(read.unwrap().is_none());
}

/// A list over several namespaces counts as one read. Reads as any type count for the kind.
#[tokio::test(start_paused = true)]
async fn reads_are_counted_by_kind_and_verb() {
    let (registry, options) = counted();
    let by_object = ByObject::new().namespaces(["a", "b"]);
    let mut world = World::new(options.by_object::<ConfigMap>(by_object));
    world.config_map("a", "c", &json!({}));
    world.start();
    let everything = ListOptions::new();
    // The first read starts the informer.
    world.cache.list::<ConfigMap>(&everything).await.unwrap();
    for _ in 0..3 {
        world.cache.get::<ConfigMap>(&key("a", "c")).await.unwrap();
    }
    let metadata = world.cache.metadata::<ConfigMap>();
    metadata.keys(&everything).await.unwrap();
    metadata.for_each(&everything, |_| {}).await.unwrap();
    let kind = Kind::of::<ConfigMap>();
    let dynamic = world.cache.of::<kube_core::DynamicObject>(&kind);
    assert!(dynamic.get_opt(&key("b", "none")).await.unwrap().is_none());
    assert!(world.cache.get::<Service>(&key("a", "s")).await.is_err());
    let expected = [
        "ConfigMap.v1 get 4", "ConfigMap.v1 list 3", "Service.v1 get 1", "Service.v1 list 0",
    ];
    assert_eq!(of(&registry, "steersman_cache_reads_total"), expected);

    // The counts stay after the removal of the informer.
    world.cache.remove::<ConfigMap>();
    world.cache.list::<ConfigMap>(&everything).await.unwrap();
    let reads = of(&registry, "steersman_cache_reads_total");
    assert_eq!(reads[..2], ["ConfigMap.v1 get 4", "ConfigMap.v1 list 4"]);
    world.stop().await.unwrap();
}

/// Two caches of one registry add to the same series.
#[tokio::test(start_paused = true)]
async fn reads_of_several_caches_are_added_up() {
    let (registry, options) = counted();
    for reads in [1, 2] {
        let mut world = World::new(options.clone());
        world.start();
        for _ in 0..reads {
            absent(&world).await;
        }
        world.stop().await.unwrap();
    }
    let expected = ["Service.v1 get 3", "Service.v1 list 0"];
    assert_eq!(of(&registry, "steersman_cache_reads_total"), expected);
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_first_sync_are_counted_by_outcome() {
    let (registry, options) = counted();
    let mut world = World::new(options.sync_timeout(Duration::from_secs(20)));
    world.start();
    let waits = || of(&registry, "steersman_cache_sync_wait_seconds");
    let services = async || {
        let read = soon(world.cache.get_opt::<Service>(&key("a", "s"))).await;
        read.map(drop)
    };
    let faults = world.server.faults();
    let slow = faults.delay(None, "services", Duration::from_secs(25));
    services().await.unwrap_err();
    assert_eq!(waits(), ["Service.v1 timeout 1 20.000"]);
    services().await.unwrap();
    let both = ["Service.v1 synced 1 5.000", "Service.v1 timeout 1 20.000"];
    assert_eq!(waits(), both);
    // The kind has synced: later reads do not wait.
    services().await.unwrap();
    assert_eq!(waits(), both);
    drop(slow);

    let refusing = faults.answer(None, "configmaps", Answer::code(403));
    world.cache.informer::<ConfigMap>().unwrap();
    let everything = ListOptions::new();
    let refused = soon(world.cache.list::<ConfigMap>(&everything)).await;
    assert!(refused.unwrap_err().is_unavailable());
    assert_eq!(waits()[0], "ConfigMap.v1 unavailable 1 0.000");
    drop(refusing);
    // Every read counts once, whether it waited or not.
    let reads = of(&registry, "steersman_cache_reads_total");
    assert_eq!(reads[2], "Service.v1 get 3");
    world.stop().await.unwrap();
}

/// CACHE-8
#[tokio::test(start_paused = true)]
async fn informers_that_end_as_idle_are_counted() {
    let (registry, options) = counted();
    let mut world = World::new(options.linger(Duration::from_secs(60)));
    world.start();
    for _ in 0..2 {
        absent(&world).await;
        let informers = of(&registry, "steersman_informers");
        assert_eq!(informers, ["Service.v1 synced 1"]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(of(&registry, "steersman_informers").is_empty());
    }
    let lingered = of(&registry, "steersman_cache_informers_lingered_total");
    assert_eq!(lingered, ["Service.v1 2"]);
    world.stop().await.unwrap();
}
