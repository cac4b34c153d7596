//! Packed and decoded bytes with various budgets, and the unpacking and decoding that reads cause.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use prometheus::Registry;
use serde_json::json;
use steersman_api::{ClientConfig, Encoding};
use steersman_informer::{Budget, Delivery, InformerMetrics, InformerOptions};
use steersman_object::{Kind, LabelSelector, ObjectKey};

use super::world::{World, put, server};

fn counted(budget: Budget) -> (Registry, InformerOptions) {
    let registry = Registry::new();
    let metrics = InformerMetrics::register(&registry).unwrap();
    let options = InformerOptions::new().metrics(metrics).budget(budget);
    (registry, options)
}

pub(super) fn of(registry: &Registry, name: &str) -> usize {
    let families = registry.gather();
    let name = format!("steersman_informer_{name}");
    let family = families.iter().find(|family| family.name() == name);
    let metric = &family.unwrap().get_metric()[0];
    let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
    format!("{value}").parse().unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// Starts an informer of objects that are decoded when they arrive.
async fn synced(options: InformerOptions, maps: usize) -> World<ConfigMap> {
    synced_in(Encoding::Json, options, maps).await
}

async fn synced_in(encoding: Encoding, options: InformerOptions, maps: usize) -> World<ConfigMap> {
    let server = server();
    for number in 0..maps {
        put(&server, &format!("m{number}"), &"some text ".repeat(20));
    }
    let client_config = ClientConfig::in_process(server.service(), "default").encoding(encoding);
    let world = World::over(&client_config, &server, Kind::of::<ConfigMap>(), options);
    world.informer.wait_for_sync().await.unwrap();
    world
}

// VIEW-8
#[tokio::test(start_paused = true)]
async fn view_8_an_object_in_protobuf_is_decoded_by_its_first_read() {
    let (registry, options) = counted(Budget::unlimited());
    let world = synced_in(Encoding::Protobuf, options, 3).await;
    assert_eq!(of(&registry, "decoded_bytes"), 0);
    let store = world.informer.store();
    let read = || store.get(&key("m1")).unwrap();
    assert!(Arc::ptr_eq(&read(), &read()));
    let (hits, unpacks) = (
        of(&registry, "decoded_hits_total"),
        of(&registry, "unpacks_total"),
    );
    assert_eq!((hits, unpacks), (1, 1));
    assert!(of(&registry, "decoded_bytes") > 0);
    // No object decodes as the type of another kind.
    let pods = world.informer.view::<Pod>().store();
    assert_eq!((pods.len(), pods.malformed().len()), (0, 3));
}

// PACK-2
#[tokio::test(start_paused = true)]
async fn pack_2_reads_return_the_same_under_every_budget_and_decode_as_it_allows() {
    let mut decoded = Vec::new();
    for budget in [Budget::bytes(0), Budget::default(), Budget::unlimited()] {
        let keeps = budget.limit() != Some(0);
        let (registry, options) = counted(budget.clone());
        let world = synced(options, 3).await;
        let store = world.informer.store();
        let read = || store.get(&key("m1")).unwrap();
        let data = read().data.clone().unwrap();
        assert_eq!(data["v"], "some text ".repeat(20));
        assert_eq!(Arc::ptr_eq(&read(), &read()), keeps);
        let (hits, unpacks) = (
            of(&registry, "decoded_hits_total"),
            of(&registry, "unpacks_total"),
        );
        assert_eq!((hits, unpacks), if keeps { (3, 0) } else { (0, 3) });
        assert!(of(&registry, "packed_bytes") < of(&registry, "bytes"));
        decoded.push(of(&registry, "decoded_bytes"));
        // Either nothing was evicted, or nothing was cached.
        assert_eq!(of(&registry, "evictions_total"), 0);
        let is_limited = budget.limit().is_some();
        assert_eq!(budget.charged() > 0, keeps && is_limited);
    }
    // An unlimited budget caches every read object, and the metric shows how much that takes.
    assert!(decoded[0] == 0 && decoded[1] > 0);
    assert_eq!(decoded[1], decoded[2]);
}

// PACK-2, PACK-3
#[tokio::test(start_paused = true)]
async fn pack_3_objects_that_are_read_again_survive_scans_of_everything() {
    let (registry, options) = counted(Budget::bytes(20_000));
    let world = synced(options, 40).await;
    let store = world.informer.store();
    let decoded = || of(&registry, "decoded_bytes");
    assert!((10_000..=20_000).contains(&decoded()), "{}", decoded());
    // Arriving objects take only free room.
    assert_eq!(of(&registry, "evictions_total"), 0);
    let kept = store.get(&key("m7")).unwrap();
    assert!(Arc::ptr_eq(&kept, &store.get(&key("m7")).unwrap()));
    let everything = LabelSelector::everything();
    for _ in 0..3 {
        // Each of these objects is read alone.
        for number in 10..40 {
            store.get(&key(&format!("m{number}"))).unwrap();
        }
        assert!(Arc::ptr_eq(&kept, &store.get(&key("m7")).unwrap()));
    }
    let (before, unpacked) = (
        of(&registry, "evictions_total"),
        of(&registry, "unpacks_total"),
    );
    assert_eq!(store.list_with(None, &everything).len(), 40);
    store.for_each(None, |map| assert!(map.data.is_some()));
    assert_eq!(of(&registry, "evictions_total"), before);
    assert!(of(&registry, "unpacks_total") > unpacked + 40);
    assert!(Arc::ptr_eq(&kept, &store.get(&key("m7")).unwrap()));
    assert!(decoded() <= 20_000);
}

// PACK-6
#[tokio::test(start_paused = true)]
async fn pack_6_a_subscriber_reads_a_live_event_before_it_is_packed() {
    // The task takes turns with others, as a controller does.
    tokio::spawn(told_of_live_events()).await.unwrap();
}

async fn told_of_live_events() {
    const MANY: usize = 100;
    let server = server();
    let (registry, options) = counted(Budget::bytes(0));
    let world = World::<ConfigMap>::of_maps(&server, options);
    world.informer.wait_for_sync().await.unwrap();
    let mut events = world.informer.subscribe();
    assert!(matches!(events.next().await, Some(Delivery::Synced)));
    let store = world.informer.store();
    let text = "some text ".repeat(20);
    put(&server, "m0", &text);
    let Some(Delivery::Event(event)) = events.next().await else {
        panic!("no event")
    };
    let unpacks = || of(&registry, "unpacks_total");
    assert!(store.get(event.key()).is_some());
    assert_eq!(unpacks(), 0);
    // By now the object is packed, and nothing is cached.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(store.get(event.key()).is_some());
    assert_eq!(unpacks(), 1);
    let each = of(&registry, "packed_bytes");

    for number in 0..MANY {
        put(&server, &format!("n{number:02}"), &text);
    }
    assert!(matches!(events.next().await, Some(Delivery::Event(_))));
    let (there, packed) = (store.len() - 1, of(&registry, "packed_bytes") - each);
    assert!(there > MANY / 2, "{there} came together");
    // When the first event was delivered, at most twenty objects were not packed.
    assert!(packed + 20 * each >= there * each, "{packed} of {there}");
}

// PACK-5
#[tokio::test(start_paused = true)]
async fn pack_5_similar_objects_are_packed_with_a_dictionary_including_earlier_ones() {
    let server = server();
    let put = |number: usize| {
        let name = format!("map-{number}");
        let labels: serde_json::Map<String, serde_json::Value> = (0..20)
            .map(|label| {
                (
                    format!("example.com/label-{label}"),
                    json!(format!("{label}")),
                )
            })
            .collect();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"of": name},
            "metadata": {"name": name, "namespace": "default", "labels": labels},
        });
        server.create(map).unwrap();
    };
    (0..2_000).for_each(put);
    let (registry, options) = counted(Budget::bytes(0));
    let world = World::of_maps(&server, options);
    world.informer.wait_for_sync().await.unwrap();
    // Virtual time stands still during training and packing.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let packed = || of(&registry, "packed_bytes");
    let before = packed();
    (2_000..2_100).for_each(put);
    let mut applied = world.informer.untyped().applied();
    while world.informer.store().len() < 2_100 {
        applied.changed().await.unwrap();
    }
    // Packed without a dictionary an object takes more than 250 bytes.
    let (early, late) = (before / 2_000, (packed() - before) / 100);
    assert!(late < 150, "{late} bytes each");
    // At least a quarter of the objects came before the dictionary; they take no more bytes than later objects.
    assert!(early <= late + 10, "{early} bytes each, and later {late}");
    let last = world.informer.store().get(&key("map-2099")).unwrap();
    assert_eq!(last.data.as_ref().unwrap()["of"], "map-2099");
    assert_eq!(world.informer.store().list().len(), 2_100);
}
