//! Slots that are gained and lost while a scripted server is listed and watched.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::Registry;
use steersman_informer::{InformerMetrics, InformerOptions, ShardFilter, Transform};
use steersman_object::{ShardBy, ShardSlot, SlotSet};
use tokio::sync::watch;

use super::fake::*;

/// Returns the slot of a namespace.
fn slot(namespace: &str) -> ShardSlot {
    ShardBy::Namespace.slot_of(&steersman_object::ObjectKey::namespaced(namespace, "x"))
}

/// Returns the slots of namespaces, which are in different slots.
fn slots<const N: usize>(namespaces: [&str; N]) -> SlotSet {
    let slots: SlotSet = namespaces.into_iter().map(slot).collect();
    assert_eq!(slots.len(), N, "the namespaces share a slot");
    slots
}

/// Returns a ConfigMap in a namespace: `of("b", "x", 1)`.
fn of(namespace: &str, name: &str, version: u64) -> k8s_openapi::api::core::v1::ConfigMap {
    let mut map = map_of(name, version, &format!("uid-of-{namespace}-{name}"));
    map.metadata.namespace = Some(namespace.into());
    map
}

fn raw_of(
    namespace: &str,
    name: &str,
    version: u64,
) -> steersman_api::Decoded<steersman_api::RawObject> {
    raw(&of(namespace, name, version))
}

fn sharded(wanted: SlotSet, options: InformerOptions) -> (watch::Sender<SlotSet>, InformerOptions) {
    let (sender, slots) = watch::channel(wanted);
    let filter = ShardFilter::new(ShardBy::Namespace, slots);
    (sender, options.shards(filter))
}

// SHARD-5
#[tokio::test(start_paused = true)]
async fn shard_5_foreign_objects_are_dropped_and_their_versions_advance_the_watch() {
    let registry = Registry::new();
    let metrics = InformerMetrics::register(&registry).unwrap();
    let fake = Fake::new();
    fake.page("10", [raw_of("a", "x", 1), raw_of("b", "x", 2)]);
    let wire = fake.watch();
    let made: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&made);
    let note = Transform::json("note", move |object| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        noted.lock().push(namespace.to_owned());
        Ok::<(), String>(())
    });
    let options = listing().metrics(metrics).transform(note);
    let (_wanted, options) = sharded(slots(["a"]), options);
    let running = run(&fake, options);
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["*x@1", "synced"]);
    let watch_events = [
        steersman_api::WatchEvent::Added(raw_of("b", "y", 11)),
        steersman_api::WatchEvent::Deleted(raw_of("b", "x", 12)),
    ];
    for event in watch_events {
        wire.unbounded_send(Ok(event)).unwrap();
    }
    running.applied(12).await;
    assert_eq!(running.stored(), ["a/x@1"]);
    assert_eq!(seen.waiting(), 0);
    assert_eq!(*made.lock(), ["a"], "foreign objects are not processed");
    let counted = registry.gather().into_iter();
    let mut counted =
        counted.filter(|family| family.name() == "steersman_informer_foreign_objects_total");
    let counted = counted.next().unwrap();
    assert_eq!(counted.get_metric()[0].get_counter().get_value(), 3.0);
    // The next watch continues after the last foreign event, and the first list asked for the newest state.
    let _next = fake.watch();
    drop(wire);
    assert_eq!(fake.request(3).await.after(), "12");
    assert_eq!(fake.request(1).await.from(), "");
}

// SHARD-5
#[tokio::test(start_paused = true)]
async fn shard_5_foreign_events_neither_end_a_streaming_list_nor_count_as_its_failure() {
    let fake = Fake::new();
    let wire = fake.watch();
    let (_wanted, options) = sharded(slots(["a"]), InformerOptions::new().seed(7));
    let running = run(&fake, options);
    for (namespace, version) in [("b", 1), ("a", 2), ("b", 3)] {
        let event = steersman_api::WatchEvent::Added(raw_of(namespace, "x", version));
        wire.unbounded_send(Ok(event)).unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!running.informer.has_synced());
    wire.unbounded_send(end_of_initial_events(9)).unwrap();
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["a/x@2"]);
    assert_eq!(fake.requests().len(), 1);
}

// SHARD-4
#[tokio::test(start_paused = true)]
async fn shard_4_objects_of_a_lost_slot_are_released_at_once_without_a_delete_or_a_request() {
    let fake = Fake::new();
    fake.page(
        "10",
        [raw_of("a", "x", 1), raw_of("b", "y", 2), {
            let mut bad = of("b", "z", 3);
            bad.metadata.labels = None;
            raw(&bad)
        }],
    );
    let wire = fake.watch();
    let (wanted, options) = sharded(slots(["a", "b"]), listing());
    let running = run(&fake, options);
    running.informer.index_label("app").unwrap();
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 4).await, ["*x@1", "*y@2", "*z@3", "synced"]);
    let loaded = running.informer.untyped().loaded();
    assert_eq!(*loaded.borrow(), slots(["a", "b"]));
    wanted.send_replace(slots(["a"]));
    assert_eq!(take(&mut seen, 2).await, ["!y", "!z"]);
    assert_eq!(running.stored(), ["a/x@1"]);
    assert_eq!(running.informer.store().list().len(), 1);
    assert_eq!(*loaded.borrow(), slots(["a"]));
    // The watch goes on, without the events of the lost slot.
    for event in [raw_of("b", "y", 11), raw_of("a", "x", 12)] {
        wire.unbounded_send(Ok(steersman_api::WatchEvent::Modified(event)))
            .unwrap();
    }
    assert_eq!(next(&mut seen).await, "~x@1>12");
    assert_eq!(running.stored(), ["a/x@12"]);
    assert_eq!(fake.requests().len(), 2);
}

// SHARD-6
#[tokio::test(start_paused = true)]
async fn shard_6_a_gained_slot_is_listed_at_the_newest_state_and_kept_objects_give_no_event() {
    let fake = Fake::new();
    fake.page(
        "10",
        [
            raw_of("a", "x", 1),
            raw_of("a", "gone", 2),
            raw_of("b", "y", 3),
        ],
    );
    let _wire = fake.watch();
    let (wanted, options) = sharded(slots(["a"]), listing());
    let running = run(&fake, options);
    let mut seen = running.informer.subscribe();
    let mut words = take(&mut seen, 3).await;
    words.sort();
    assert_eq!(words, ["*gone@2", "*x@1", "synced"]);
    fake.request(2).await;
    let loaded = running.informer.untyped().loaded();
    fake.page("20", [raw_of("a", "x", 1), raw_of("b", "y", 15)]);
    let wire = fake.watch();
    wanted.send_replace(slots(["a", "b"]));
    // The slot counts as loaded only after the list.
    tokio::task::yield_now().await;
    let both = slots(["a", "b"]);
    running
        .informer
        .untyped()
        .wait_for_slots(&both)
        .await
        .unwrap();
    assert_eq!(*loaded.borrow(), both);
    assert_eq!(take(&mut seen, 2).await, ["-gone@2?", "+y@15"]);
    assert_eq!(seen.waiting(), 0);
    assert_eq!(fake.request(3).await.from(), "");
    assert_eq!(fake.request(4).await.after(), "20");
    // A lost slot that is gained again gives a new Created event.
    wanted.send_replace(slots(["a"]));
    assert_eq!(next(&mut seen).await, "!y");
    assert_eq!(*loaded.borrow(), slots(["a"]));
    fake.page("30", [raw_of("a", "x", 1), raw_of("b", "y", 15)]);
    let _last = fake.watch();
    wanted.send_replace(both);
    assert_eq!(next(&mut seen).await, "+y@15");
    drop(wire);
    assert_eq!(fake.requests().len(), 6);
}

// SHARD-6
#[tokio::test(start_paused = true)]
async fn shard_6_a_streaming_list_of_fewer_slots_is_abandoned_when_a_slot_is_gained() {
    let fake = Fake::new();
    let first = fake.watch();
    let (wanted, options) = sharded(slots(["a"]), InformerOptions::new().seed(7));
    let running = run(&fake, options);
    let event = steersman_api::WatchEvent::Added(raw_of("a", "x", 1));
    first.unbounded_send(Ok(event)).unwrap();
    fake.request(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let second = fake.watch();
    wanted.send_replace(slots(["a", "b"]));
    fake.request(2).await;
    // The first stream is closed, so its end bookmark is not taken.
    assert!(first.unbounded_send(end_of_initial_events(5)).is_err());
    for namespace in ["a", "b"] {
        let event = steersman_api::WatchEvent::Added(raw_of(namespace, "x", 2));
        second.unbounded_send(Ok(event)).unwrap();
    }
    second.unbounded_send(end_of_initial_events(9)).unwrap();
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["a/x@2", "b/x@2"]);
}

// SHARD-4, SHARD-6
#[tokio::test(start_paused = true)]
async fn shard_6_a_slot_that_is_lost_during_a_list_is_not_loaded_by_it() {
    for is_regained in [false, true] {
        let fake = Fake::new();
        let wire = fake.watch();
        let (wanted, options) = sharded(slots(["a", "b"]), InformerOptions::new().seed(7));
        let running = run(&fake, options);
        for namespace in ["a", "b"] {
            let event = steersman_api::WatchEvent::Added(raw_of(namespace, "x", 1));
            wire.unbounded_send(Ok(event)).unwrap();
        }
        fake.request(1).await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        wanted.send_replace(slots(["a"]));
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let again = fake.watch();
        if is_regained {
            wanted.send_replace(slots(["a", "b"]));
            fake.request(2).await;
            let event = steersman_api::WatchEvent::Added(raw_of("b", "x", 5));
            again.unbounded_send(Ok(event)).unwrap();
            again.unbounded_send(end_of_initial_events(9)).unwrap();
        } else {
            wire.unbounded_send(end_of_initial_events(9)).unwrap();
        }
        running.informer.wait_for_sync().await.unwrap();
        let stored = running.stored();
        let loaded = *running.informer.untyped().loaded().borrow();
        match is_regained {
            true => assert_eq!((stored, loaded), (vec!["b/x@5".into()], slots(["a", "b"]))),
            false => assert_eq!((stored, loaded), (vec!["a/x@1".into()], slots(["a"]))),
        }
    }
}

// SHARD-7
#[tokio::test(start_paused = true)]
async fn shard_7_an_informer_without_slots_is_synced_and_sends_no_request() {
    let fake = Fake::new();
    let (wanted, options) = sharded(SlotSet::EMPTY, listing());
    let running = run(&fake, options);
    let mut seen = running.informer.subscribe();
    assert_eq!(next(&mut seen).await, "synced");
    assert!(running.informer.state().is_synced());
    running.informer.untyped().relist().await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(fake.requests().is_empty());
    assert_eq!(running.informer.untyped().activity_due(), None);
    fake.page("10", [raw_of("a", "x", 1), raw_of("b", "y", 2)]);
    let wire = fake.watch();
    wanted.send_replace(slots(["a"]));
    assert_eq!(next(&mut seen).await, "+x@1");
    fake.request(2).await;
    // The last slot is lost: the watch ends, and the store is empty.
    wanted.send_replace(SlotSet::EMPTY);
    assert_eq!(next(&mut seen).await, "!x");
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(wire.is_closed());
    assert!(running.stored().is_empty() && running.informer.state().is_synced());
    assert_eq!(fake.requests().len(), 2);
}

// SHARD-7
#[tokio::test(start_paused = true)]
async fn shard_7_a_failing_informer_that_loses_its_slots_is_not_degraded() {
    let fake = Fake::new();
    for _ in 0..20 {
        fake.list_refused(503, "ServiceUnavailable");
    }
    let (wanted, options) = sharded(slots(["a"]), listing());
    let running = run(&fake, options);
    let mut states = running.informer.state_changes();
    states.wait_for(|state| state.is_degraded()).await.unwrap();
    wanted.send_replace(SlotSet::EMPTY);
    running.informer.wait_for_sync().await.unwrap();
    states.wait_for(|state| state.is_synced()).await.unwrap();
}
