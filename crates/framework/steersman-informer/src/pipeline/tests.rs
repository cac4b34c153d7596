//! Reads, indexes and subscriptions on another thread than the writer.
//!
//! On one thread nothing runs between two steps of a write, so only these tests show a missing lock.

mod ending;
mod judging;
mod reading;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::PartialObjectMeta;
use steersman_api::{Decoded, Malformed, RawObject};
use steersman_object::{ListOptions, ObjectKey, ResourceVersion};

use super::*;
use crate::delta::{Arrived, DeltaItem};
use crate::delta::{EventType, IngestContext};
use crate::entry::Interners;
use crate::entry::{Entry, RawEntry};
use crate::fanout::{Delivery, Subscription};
use crate::shard_filter::slot_ledger::ListSlots;
use crate::store::Index;
use steersman_pack::Budget;

type Map = ConfigMap;

const KEYS: u64 = 8;

const WHOLE: Projection = Projection::EveryField;

/// Returns an entry of map `number` at a version, with the version as the value in the map.
fn entry(number: u64, version: u64) -> DeltaItem {
    let mut map = Map::default();
    map.metadata.name = Some(format!("m{number}"));
    map.metadata.uid = Some(format!("u{number}"));
    map.metadata.resource_version = Some(version.to_string());
    map.data = Some(BTreeMap::from([("v".into(), version.to_string())]));
    Decoded::Good(Entry::new(map).cast())
}

fn put(number: u64, version: u64) -> Delta {
    Delta::Put(entry(number, version).into())
}

fn replaced(version: u64, numbers: impl Iterator<Item = u64>) -> Delta {
    Delta::Replaced {
        version: ResourceVersion::new(version.to_string()),
        items: numbers
            .map(|number| entry(number, version).into())
            .collect(),
        projection: WHOLE,
        relists: 0,
        slots: ListSlots::ALL,
    }
}

fn value(map: &Map) -> Vec<String> {
    let data = map.data.iter();
    data.filter_map(|data| data.get("v").cloned()).collect()
}

/// Returns a core, and a handle of a view of it.
fn core(mailbox_bound: usize) -> (Core, Arc<ViewHandle>) {
    let options = InformerOptions::new().mailbox_bound(mailbox_bound);
    let core = Core::new(Kind::of::<Map>(), options);
    core.start();
    let handle = core.view::<Map>();
    (core, handle)
}

fn index(name: &str, values: impl Fn(&Map) -> Vec<String> + Send + Sync + 'static) -> Index {
    let values = move |entry: &RawEntry| Ok(values(&*entry.decoded::<Map>()?));
    Index::new(name, Arc::new(values))
}

/// The number of completed writes. It becomes the maximum when the writer ends, so that a failed test does not hang.
struct Progress<'a>(&'a AtomicU64);

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

/// Runs `write` on another thread for each version from 1, and `look` on this thread after each write.
fn while_writing(versions: u64, write: impl Fn(u64) + Send, mut look: impl FnMut()) {
    let written = AtomicU64::new(0);
    std::thread::scope(|threads| {
        let written = &written;
        threads.spawn(move || {
            let progress = Progress(written);
            for version in 1..=versions {
                write(version);
                progress.0.store(version, Ordering::Release);
            }
        });
        let mut seen = 0;
        while seen < u64::MAX {
            let now = written.load(Ordering::Acquire);
            if now > seen {
                look();
            } else {
                std::thread::yield_now();
            }
            seen = now;
        }
    });
}

/// Asserts that an index contains exactly the stored objects.
fn assert_agrees(indexer: &Indexer, handle: &ViewHandle, index: &str) {
    let view = indexer.view(handle.id).unwrap();
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in indexer.entries(None) {
        for value in value(&entry.cast::<Map>().object()) {
            values.entry(value).or_default().push(format!("{entry:?}"));
        }
    }
    let mut filed = 0;
    for (value, expected) in &values {
        let found = view.index(index).unwrap().get(value).unwrap();
        let found: Vec<String> = found.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(&found, expected, "index {index}, value {value}");
        filed += found.len();
    }
    assert_eq!(filed, indexer.len());
}

// STORE-1
#[test]
fn store_1_a_reader_sees_each_batch_whole_and_its_indexes_with_it() {
    let (core, handle) = core(1 << 20);
    core.add_index(&handle, index("value", value)).unwrap();
    let write = |version: u64| {
        let batch = if version.is_multiple_of(50) {
            vec![replaced(version, 0..KEYS)]
        } else {
            (0..KEYS).map(|number| put(number, version)).collect()
        };
        core.apply(batch);
    };
    let store = core.store::<Map>(&handle);
    while_writing(3000, write, || {
        let listed = store.list();
        let values: BTreeSet<_> = listed.iter().flat_map(|map| value(map)).collect();
        assert!(values.len() <= 1, "parts of several batches: {values:?}");
        assert_agrees(&core.shared.indexer.read(), &handle, "value");
    });
}

// STORE-1
#[test]
fn store_1_an_index_that_is_added_during_writes_misses_none() {
    let (core, handle) = core(1 << 20);
    core.apply(vec![replaced(1, 0..100)]);
    let mut added = 0;
    // Slow, so that the writer could interfere if it were not blocked.
    let slow = |map: &Map| {
        std::thread::yield_now();
        value(map)
    };
    let write = |version: u64| core.apply(vec![put(version % 100, version + 1)]);
    while_writing(2000, write, || {
        if added < 20 {
            let name = format!("i{added}");
            core.add_index(&handle, index(&name, slow)).unwrap();
            assert_agrees(&core.shared.indexer.read(), &handle, &name);
            added += 1;
        }
    });
}

// FAN-1
#[test]
fn fan_1_a_subscriber_that_joins_during_writes_gets_everything_once() {
    let (core, handle) = core(1 << 20);
    core.apply(vec![replaced(1, 0..KEYS)]);
    let mut subscriptions = Vec::new();
    let write = |version: u64| {
        let number = version * 7 % KEYS;
        core.apply(vec![match version % 5 {
            0 => Delta::Removed(entry(number, version + 1).into()),
            1 => replaced(version + 1, (0..KEYS).filter(|n| n % 3 != version % 3)),
            _ => put(number, version + 1),
        }]);
    };
    while_writing(2000, write, || {
        if subscriptions.len() < 100 {
            subscriptions.push(core.subscribe::<Map>(&handle));
        }
    });
    core.stop();
    let entries = core.store::<Map>(&handle).entries(None);
    let expected: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
    for mut subscription in subscriptions {
        let mut world: BTreeMap<ObjectKey, String> = BTreeMap::new();
        while let Some(delivery) = subscription.next().now_or_never().unwrap() {
            let Delivery::Event(event) = delivery else {
                continue;
            };
            let before = event.old().map(|old| format!("{old:?}"));
            let known = match event.current() {
                Some(new) => world.insert(new.key().clone(), format!("{new:?}")),
                None => world.remove(event.key()),
            };
            if event.is_delete() {
                assert!(known.is_some(), "{event:?}");
            } else {
                assert_eq!(known, before, "{event:?}");
            }
        }
        assert_eq!(world.into_values().collect::<Vec<_>>(), expected);
    }
}

// FAN-3
#[test]
fn fan_3_no_event_is_delivered_before_the_store_has_it() {
    let (core, handle) = core(0);
    let store = core.store::<Map>(&handle);
    let mut subscription = core.subscribe::<Map>(&handle);
    // These subscriptions get each event after the first subscription, which so gets it long before the writer is done.
    let others: Vec<_> = (0..200).map(|_| core.subscribe::<Map>(&handle)).collect();
    let write = |version: u64| {
        core.apply(vec![match version % 2 {
            0 => replaced(version, 0..KEYS),
            _ => put(version % KEYS, version),
        }]);
    };
    while_writing(1000, write, || {
        while let Some(Some(delivery)) = subscription.next().now_or_never() {
            if let Delivery::Event(event) = delivery {
                let view_effects = event.entry().version();
                assert!(store.version().is_at_least(view_effects), "{event:?}");
            }
        }
    });
    drop(others);
}

#[test]
fn dropping_a_subscription_frees_its_waiting_events() {
    let (core, handle) = core(1 << 20);
    core.apply(vec![replaced(1, 0..1)]);
    let subscription = core.subscribe::<Map>(&handle);
    let store = core.store::<Map>(&handle);
    let object = Arc::downgrade(&store.list()[0]);
    core.apply(vec![Delta::Removed(entry(0, 2).into())]);
    assert!(store.is_empty() && object.upgrade().is_some());
    drop(subscription);
    // The mailbox was emptied, and not just removed by a later write.
    assert!(object.upgrade().is_none());
    assert_eq!(core.subscribers(), 0);
    for _ in 0..10 {
        drop(core.subscribe::<Map>(&handle));
    }
    assert!(core.writer.lock().fanout.mailboxes().len() <= 1);
}

type Metadata = PartialObjectMeta<Map>;

/// Returns an object that was requested with this projection.
fn arrived(projection: Projection) -> DeltaItem {
    let json = br#"{"metadata":{"name":"m1","uid":"u","resourceVersion":"2"},"data":{"v":"2"}}"#;
    let object = RawObject::from_json(&json[..]).unwrap();
    ingested(object, projection)
}

fn ingested(object: RawObject, projection: Projection) -> DeltaItem {
    let (context, interners) = (BodyContext::alone(Budget::default()), Interners::default());
    Decoded::Good(RawEntry::ingest(
        object, projection, &context, None, &interners,
    ))
}

/// Returns the object as the reflector gets it, of a list or of a live event.
fn ingested_by(core: &Arc<Core>, object: RawObject, in_list: bool) -> Arrived {
    let arrived_as = IngestContext {
        event_type: EventType::Added,
        projection: WHOLE,
        in_list,
    };
    core.entries.ingest(Decoded::Good(object), arrived_as, || 0)
}

fn listed(items: Vec<DeltaItem>, projection: Projection) -> Delta {
    Delta::Replaced {
        version: ResourceVersion::new("2"),
        items: items.into_iter().map(Arrived::from).collect(),
        projection,
        relists: 0,
        slots: ListSlots::ALL,
    }
}

/// Returns the waiting deliveries as text.
fn waiting<K>(subscription: &mut Subscription<K>) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(Some(delivery)) = subscription.next().now_or_never() {
        words.push(match delivery {
            Delivery::Event(event) => format!("{:?}", event.entry()),
            Delivery::Synced => "synced".to_owned(),
            Delivery::Released(key) => format!("released {key}"),
        });
    }
    words
}

// VIEW-3
#[test]
fn view_3_readers_of_whole_objects_do_not_see_a_list_of_metadata() {
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new());
    core.start();
    // The first list had begun when whole objects were requested.
    let (metadata, whole) = (core.view::<Metadata>(), core.view::<Map>());
    let mut heads = core.subscribe::<Metadata>(&metadata);
    let mut bodies = core.subscribe::<Map>(&whole);
    core.apply(vec![listed(
        vec![arrived(Projection::Metadata)],
        Projection::Metadata,
    )]);
    assert_eq!(waiting(&mut heads), ["m1@2", "synced"]);
    assert!(waiting(&mut bodies).is_empty());
    assert!(core.store::<Map>(&whole).is_empty());
    assert!(core.has_synced(Projection::Metadata) && !core.has_synced(WHOLE));
    core.apply(vec![listed(vec![arrived(WHOLE)], WHOLE)]);
    assert_eq!(waiting(&mut bodies), ["m1@2", "synced"]);
    assert!(waiting(&mut heads).is_empty());
    assert!(core.has_synced(WHOLE));
}

// VIEW-3
#[test]
fn view_3_metadata_put_during_a_whole_list_is_completed() {
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new());
    core.start();
    let metadata = core.view::<Metadata>();
    core.apply(vec![listed(Vec::new(), Projection::Metadata)]);
    let whole = core.view::<Map>();
    // The list was read while the watch's event waited in the queue.
    core.apply(vec![
        Delta::Put(arrived(Projection::Metadata).into()),
        listed(vec![arrived(WHOLE)], WHOLE),
    ]);
    let key = ObjectKey::cluster_scoped("m1");
    assert_eq!(value(&core.store::<Map>(&whole).get(&key).unwrap()), ["2"]);
    assert!(core.store::<Metadata>(&metadata).get(&key).is_some());
}

/// Returns a subscription for whole objects, to a store that has the metadata of `m1`.
fn widening() -> (Core, Arc<ViewHandle>, Subscription<Map>) {
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new());
    core.start();
    core.apply(vec![listed(
        vec![arrived(Projection::Metadata)],
        Projection::Metadata,
    )]);
    let whole = core.view::<Map>();
    let bodies = core.subscribe::<Map>(&whole);
    (core, whole, bodies)
}

/// Applies a list with the whole object `m1`, and right after it a later version with this JSON as `data`.
fn widened(core: &Core, then: fn(Arrived) -> Delta, data: &str) {
    let metadata = r#"{"name":"m1","uid":"u","resourceVersion":"3"}"#;
    let json = format!(r#"{{"metadata":{metadata},"data":{data}}}"#);
    let later = RawObject::from_json(json.into_bytes()).unwrap();
    let later = ingested(later, WHOLE);
    let whole = listed(vec![arrived(WHOLE)], WHOLE);
    core.apply(vec![whole, then(later.into())]);
}

// VIEW-3
#[test]
fn view_3_an_event_directly_after_the_whole_list_is_indexed() {
    let (core, whole, mut bodies) = widening();
    core.add_index(&whole, index("value", value)).unwrap();
    widened(&core, Delta::Put, r#"{"v":"3"}"#);
    assert_agrees(&core.shared.indexer.read(), &whole, "value");
    assert_eq!(waiting(&mut bodies), ["m1@2", "synced", "m1@3"]);
}

// VIEW-1, VIEW-3
#[test]
fn view_3_a_malformed_event_directly_after_the_whole_list_keeps_the_last_version() {
    let (core, whole, mut bodies) = widening();
    widened(&core, Delta::Put, "7");
    assert_eq!(waiting(&mut bodies), ["m1@2", "synced"]);
    let read = core
        .store::<Map>(&whole)
        .try_get(&ObjectKey::cluster_scoped("m1"));
    assert_eq!(value(&read.unwrap().unwrap()), ["2"]);
    assert_eq!(core.shared.indexer.read().unreadable(), 1);
}

// VIEW-1, VIEW-3
#[test]
fn view_3_a_malformed_delete_directly_after_the_whole_list_delivers_the_last_version() {
    let (core, _whole, mut bodies) = widening();
    widened(&core, Delta::Removed, "7");
    // The delete has the last version that decoded.
    assert_eq!(waiting(&mut bodies), ["m1@2", "synced", "m1@2"]);
}

// VIEW-4
#[test]
fn view_4_a_view_created_again_caches_its_objects() {
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new());
    core.start();
    core.apply(vec![listed(vec![arrived(WHOLE)], WHOLE)]);
    drop(core.view::<Map>());
    let _again = core.view::<Map>();
    let indexer = core.shared.indexer.read();
    let stored = indexer.get(&ObjectKey::cluster_scoped("m1")).unwrap();
    let (one, two) = (
        stored.raw_body().decode_once::<Map>(),
        stored.raw_body().decode_once(),
    );
    assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()));
}

// STORE-7
#[test]
fn store_7_reads_do_not_wait_for_a_new_index() {
    let (core, handle) = core(8);
    core.apply(vec![replaced(1, 0..1)]);
    let (begins, begun) = mpsc::channel();
    let (has_read, meanwhile) = mpsc::channel();
    let meanwhile = Mutex::new(meanwhile);
    let slow = move |_: &Map| {
        begins.send(()).unwrap();
        // The timeout ends the wait only if the test fails.
        let read = meanwhile.lock().recv_timeout(Duration::from_secs(10));
        vec![format!("{read:?}")]
    };
    std::thread::scope(|threads| {
        threads.spawn(|| core.add_index(&handle, index("slow", slow)).unwrap());
        begun.recv().unwrap();
        assert!(core.has_synced(WHOLE));
        assert!(
            core.store::<Map>(&handle)
                .get(&ObjectKey::cluster_scoped("m0"))
                .is_some()
        );
        has_read.send(()).unwrap();
    });
    let indexer = core.shared.indexer.read();
    let index = indexer.view(handle.id).unwrap().index("slow").unwrap();
    assert!(index.has(&ObjectKey::cluster_scoped("m0"), "Ok(())"));
}

#[test]
fn resyncs_are_a_second_apart_at_least_and_differ_by_a_tenth() {
    for (every, seconds) in [
        (Duration::from_nanos(1), 1.0),
        (Duration::from_secs(60), 60.0),
    ] {
        let spread: BTreeSet<Duration> = (0..20).map(|seed| spread(every, seed)).collect();
        assert!(spread.len() > 5);
        let bounds = seconds * 0.9..=seconds * 1.1;
        let within = |every: &Duration| bounds.contains(&every.as_secs_f64());
        assert!(spread.iter().all(within), "{spread:?}");
    }
}

// CACHE-4
#[test]
fn an_object_that_heals_while_it_is_read_is_never_absent() {
    const OBJECTS: u64 = 8000;
    let (core, handle) = core(0);
    let key = |number: u64| ObjectKey::cluster_scoped(format!("m{number}"));
    let malformed = |number: u64| {
        let version = ResourceVersion::new("1");
        let uid = format!("u{number}");
        DeltaItem::from(Malformed::new(key(number), uid, version, "odd"))
    };
    core.apply(vec![listed((1..=OBJECTS).map(malformed).collect(), WHOLE)]);
    let store = core.store::<Map>(&handle);
    let mut next = 1;
    let heal = |version| core.apply(vec![put(version, version + 1)]);
    while_writing(OBJECTS, heal, || {
        // Repeated, so that some reads coincide with the write.
        for _ in 0..1000 {
            match store.try_get(&key(next.min(OBJECTS))) {
                Ok(Some(_)) => next += 1,
                Ok(None) => panic!("m{next} is there"),
                Err(_) => std::hint::spin_loop(),
            }
        }
    });
    let (last, version) = store.get_with_version(&key(OBJECTS));
    assert!(matches!(last, Ok(Some(_))));
    assert_eq!(version, ResourceVersion::new((OBJECTS + 1).to_string()));
}
