//! Tests of the store against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::decoded_window::{LARGE, UNFOLDED};
use super::*;
use crate::ManagedFields;

/// A limit of bytes that no test of this file reaches.
const BYTES: usize = 1 << 20;

fn object(name: &str, n: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": name}, "n": n})
}

fn storage(index: u8) -> StorageKey {
    StorageKey::new("test", if index == 0 { "ones" } else { "twos" })
}

/// Namespaces with one order in pairs with a name, and the reverse order in keys.
const NAMESPACES: [&str; 3] = ["ns", "ns-1", "ns-1.2"];

/// An operation on the store and on the model.
#[derive(Debug, Clone)]
enum Op {
    Put(u8, u8, u8),
    Delete(u8, u8, u8),
    Compact(u8),
    Finish,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..2u8, 0..3u8, 0..4u8).prop_map(|(s, ns, n)| Op::Put(s, ns, n)),
        3 => (0..2u8, 0..3u8, 0..4u8).prop_map(|(s, ns, n)| Op::Delete(s, ns, n)),
        1 => (0..20u8).prop_map(Op::Compact),
        3 => Just(Op::Finish),
    ]
}

/// The model of all objects at one revision: the revision that wrote each of them, by storage, namespace and name.
type World = BTreeMap<(u8, String, String), u64>;

fn of(world: &World, storage: u8) -> Vec<(String, String, u64)> {
    let of = world.iter().filter(|((s, _, _), _)| *s == storage);
    let mut of: Vec<_> = of
        .map(|((_, ns, name), revision)| (ns.clone(), name.clone(), *revision))
        .collect();
    of.sort_by_key(|(ns, name, _)| format!("{ns}/{name}"));
    of
}

/// Returns the bytes that each counted change keeps in memory, computed from the log.
fn held(store: &Store) -> Vec<u64> {
    let logs = store.tables.values().flat_map(|table| &table.log);
    let counted = logs.filter(|change| change.revision <= store.counted());
    counted.map(Change::held).collect()
}

/// Finishes the work of all writes so far, so that all changes are counted.
fn finish(store: &mut Store) {
    for _ in 0..2 {
        store.take_after_writes().finish();
    }
    assert_eq!(store.counted(), store.revision());
}

fn seen(list: &[Arc<Stored>]) -> Vec<(String, String, u64)> {
    list.iter()
        .map(|s| (s.namespace.to_string(), s.name.to_string(), s.revision))
        .collect()
}

proptest! {
    // SRV-STORE-1, SRV-STORE-3, SRV-STORE-5: every readable revision lists its objects, in all namespaces and in one,
    // and replaying the changes after it leads to the newest state.
    #[test]
    fn reads_and_replays_every_retained_revision(
        ops in prop::collection::vec(op(), 1..120),
        retained in 2..60usize,
        bytes in prop_oneof![Just(BYTES), 0..4000usize],
    ) {
        let mut store = Store::new(retained, bytes);
        let mut world = World::new();
        let mut past: BTreeMap<u64, World> = BTreeMap::from([(store.revision(), world.clone())]);
        for op in ops {
            match op {
                Op::Put(s, ns, n) => {
                    let (ns, name) = (NAMESPACES[usize::from(ns)].to_owned(), format!("n{n}"));
                    let stored = store.put(&storage(s), &ns, &name, object(&name, 1));
                    prop_assert_eq!(stored.revision, store.revision());
                    prop_assert_eq!(stored.meta("resourceVersion"), stored.revision.to_string());
                    world.insert((s, ns, name), stored.revision);
                }
                Op::Delete(s, ns, n) => {
                    let (ns, name) = (NAMESPACES[usize::from(ns)].to_owned(), format!("n{n}"));
                    let gone = store.delete(&storage(s), &ns, &name);
                    prop_assert_eq!(gone.is_some(), world.remove(&(s, ns, name)).is_some());
                }
                Op::Compact(back) => {
                    let to = store.revision().saturating_sub(u64::from(back));
                    store.compact(to);
                }
                Op::Finish => finish(&mut store),
            }
            past.insert(store.revision(), world.clone());
            prop_assert!(store.revision() - store.compacted() <= retained as u64);
            let held = held(&store);
            prop_assert_eq!(store.held_bytes, held.iter().sum::<u64>());
            let alone = held.iter().filter(|held| **held > 0).count() <= 1;
            prop_assert!(store.held_bytes <= bytes as u64 || alone);
        }
        for s in 0..2u8 {
            for (revision, then) in &past {
                let listed = store.list_at(&storage(s), None, *revision);
                if *revision < store.compacted() {
                    prop_assert_eq!(listed.is_err(), true);
                    continue;
                }
                let listed = listed.map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
                prop_assert_eq!(seen(&listed), of(then, s));
                for ns in NAMESPACES {
                    let one = store.list_at(&storage(s), Some(ns), *revision);
                    let one = one.map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
                    let mut then = of(then, s);
                    then.retain(|(of, _, _)| of == ns);
                    prop_assert_eq!(seen(&one), then);
                }
                let mut replayed: BTreeMap<_, _> =
                    listed.iter().map(|x| (x.key(), x.revision)).collect();
                let mut last = *revision;
                let changes = store.changes(&storage(s), *revision);
                for change in changes.map_err(|e| TestCaseError::fail(format!("{e:?}")))? {
                    prop_assert!(change.revision > last);
                    last = change.revision;
                    if change.deleted {
                        prop_assert!(replayed.remove(&change.new.key()).is_some());
                    } else {
                        let before = replayed.insert(change.new.key(), change.revision);
                        prop_assert_eq!(before, change.old.as_ref().map(|old| old.revision));
                    }
                }
                let now = of(&world, s).into_iter();
                let now = now.map(|(ns, name, revision)| (format!("{ns}/{name}"), revision));
                prop_assert_eq!(replayed, now.collect::<BTreeMap<_, _>>());
            }
        }
    }
}

#[test]
fn bytes_begin_with_kind_and_version_and_items_drop_them() {
    let mut store = Store::new(10, BYTES);
    let stored = store.put(&storage(0), "a", "x", object("x", 3));
    let text = std::str::from_utf8(stored.bytes()).unwrap();
    assert_eq!(
        text,
        r#"{"kind":"T","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"2"},"n":3}"#
    );
    let item = &text[stored.after_type()..];
    assert_eq!(
        item,
        r#""metadata":{"name":"x","resourceVersion":"2"},"n":3}"#
    );
}

#[test]
fn a_future_revision_is_not_readable() {
    let store = Store::new(10, BYTES);
    let listed = store.list_at(&storage(0), None, 9);
    assert_eq!(listed.err(), Some(Unreadable::Future { current: 1 }));
}

/// SRV-STORE-4: writes of other storages do not expire a quiet position.
#[test]
fn a_quiet_position_survives_compaction() {
    let mut store = Store::new(10, BYTES);
    let quiet = store.put(&storage(0), "", "q", object("q", 0)).revision;
    for n in 0..50 {
        store.put(&storage(1), "", "busy", object("busy", n));
    }
    assert!(store.compacted() > quiet);
    assert_eq!(store.changes(&storage(0), quiet).unwrap().count(), 0);
    assert!(store.changes(&storage(1), quiet).is_err());
    assert!(store.changes(&storage(0), quiet - 1).is_err());
}

/// SRV-STORE-2: a reader keeps the state that it read, while the object changes.
#[test]
fn a_held_revision_does_not_change() {
    let mut store = Store::new(10, BYTES);
    let held = store.put(&storage(0), "", "x", object("x", 1));
    store.put(&storage(0), "", "x", object("x", 2));
    let tombstone = store.delete(&storage(0), "", "x").unwrap();
    assert_eq!(held.value["n"], 1);
    assert_eq!(tombstone.value["n"], 2);
    assert!(tombstone.revision > held.revision);
}

/// SRV-STORE-3: large objects limit the log, even if it has few revisions.
#[test]
fn the_past_is_bounded_in_bytes_too() {
    let mut store = Store::new(1000, 50_000);
    let large = |n: usize| {
        let mut value = object("x", 1);
        value["filler"] = json!("x".repeat(n));
        value
    };
    for _ in 0..100 {
        store.put(&storage(0), "", "x", large(10_000));
        finish(&mut store);
        assert!(store.held_bytes <= 50_000);
    }
    assert!(store.revision() - store.compacted() < 6);
    // These objects are small now, and were large before.
    for n in 0..4 {
        store.put(&storage(1), "", &n.to_string(), large(20_000));
    }
    for n in 0..4 {
        store.put(&storage(1), "", &n.to_string(), large(0));
        finish(&mut store);
        assert!(store.held_bytes <= 50_000);
    }
    // The newest change can be watched, even if it exceeds the limit of bytes alone.
    let before = store.put(&storage(0), "", "x", large(60_000)).revision;
    store.delete(&storage(0), "", "x");
    finish(&mut store);
    assert_eq!(store.changes(&storage(0), before).unwrap().count(), 1);
    store.put(&storage(0), "", "y", large(0));
    finish(&mut store);
    assert!(store.changes(&storage(0), before).is_err());
}

/// SRV-STORE-6: watches share the bytes.
#[test]
fn the_line_of_an_event_is_serialised_once_and_shared() {
    let mut store = Store::new(10, BYTES);
    let storage = storage(0);
    let first = store.put(&storage, "ns", "a", object("a", 1));
    let second = store.put(&storage, "ns", "a", object("a", 2));
    let last = store.delete(&storage, "ns", "a").unwrap();
    for (stored, made) in [
        (first, ChangeType::Added),
        (second, ChangeType::Modified),
        (last, ChangeType::Deleted),
    ] {
        let line = stored.line(made).unwrap();
        let expected = format!(
            "{{\"type\":\"{}\",\"object\":{}}}\n",
            made.as_str(),
            String::from_utf8_lossy(stored.bytes())
        );
        assert_eq!(line, expected);
        // The bytes of the object are a part of the line, so they are stored once.
        let within = line.as_ptr_range();
        assert!(within.contains(&stored.bytes().as_ptr()));
        let others = [ChangeType::Added, ChangeType::Modified, ChangeType::Deleted];
        let others = others.iter().filter(|other| **other != made);
        assert!(
            others
                .into_iter()
                .all(|other| stored.line(*other).is_none())
        );
    }
}

/// SRV-STORE-7: the window of decoded objects has a limit.
#[test]
fn only_the_newest_objects_and_no_past_revisions_stay_decoded() {
    let mut store = Store::new(1000, 1 << 30);
    let storage = storage(0);
    let payload = "x".repeat(LARGE / 2);
    let most = 2 * UNFOLDED / LARGE;
    for n in 0..most + 12 {
        let mut large = object("large", 0);
        large["payload"] = json!(payload);
        let stored = store.put(&storage, "ns", &format!("a{n:03}"), large);
        assert!(stored.is_decoded());
        finish(&mut store);
    }
    let decoded: Vec<bool> = store
        .list(&storage, None)
        .map(|stored| stored.is_decoded())
        .collect();
    let newest = decoded.iter().rev().take_while(|decoded| **decoded).count();
    assert!((1..=most).contains(&newest), "{decoded:?}");
    assert!(
        !decoded[..most + 12 - newest].contains(&true),
        "{decoded:?}"
    );
    store.delete(&storage, "ns", "a000");
    for change in store.changes(&storage, 0).unwrap() {
        assert!(!change.new.is_decoded());
        assert!(change.old.as_ref().is_none_or(|old| !old.is_decoded()));
    }
}

/// SRV-STORE-7: reads do not exceed the limit of the window.
#[test]
fn objects_that_readers_decode_again_are_within_the_same_bound() {
    let mut store = Store::new(10_000, 1 << 30);
    let storage = storage(0);
    let payload = "x".repeat(LARGE / 2);
    let all = 4 * UNFOLDED / LARGE;
    for n in 0..all {
        let mut large = object("large", 0);
        large["payload"] = json!(payload);
        store.put(&storage, "ns", &format!("a{n:03}"), large);
        finish(&mut store);
    }
    for restored in [false, true] {
        if restored {
            let objects = store.list(&storage, None).cloned().collect();
            let revision = store.revision();
            store.restore(revision, &[(storage.clone(), objects)]);
            assert_eq!(store.decoded(&storage), 0);
        }
        for _ in 0..2 {
            assert!(store.list(&storage, None).all(|one| one.lean().is_object()));
            assert!(store.list(&storage, None).all(|one| one.value.is_object()));
            assert_eq!(store.decoded(&storage), all);
            finish(&mut store);
            let decoded = store.decoded(&storage);
            assert!((1..=2 * UNFOLDED / LARGE).contains(&decoded), "{decoded}");
        }
    }
}

/// SRV-STORE-7: a large object does not enter the window.
#[test]
fn a_large_object_is_decoded_for_the_write_or_the_read_only() {
    let mut store = Store::new(1000, 1 << 30);
    let storage = storage(0);
    let mut large = object("large", 0);
    large["payload"] = json!("x".repeat(LARGE));
    store.put(&storage, "ns", "a", large);
    finish(&mut store);
    assert_eq!(store.decoded(&storage), 0);
    assert!(store.get(&storage, "ns", "a").unwrap().lean().is_object());
    assert_eq!(store.decoded(&storage), 1);
    finish(&mut store);
    assert_eq!(store.decoded(&storage), 0);
}

/// SRV-STORE-7: a write does not drop the replaced object, and the number of replaced objects is limited even if no
/// caller takes them.
#[test]
fn replaced_objects_wait_to_be_dropped_within_a_bound() {
    let mut store = Store::new(1000, 1 << 30);
    let storage = storage(0);
    let first = Arc::downgrade(&store.put(&storage, "ns", "a", object("a", 0)));
    store.put(&storage, "ns", "a", object("a", 1));
    assert!(first.upgrade().is_some());
    store.take_after_writes().finish();
    assert!(first.upgrade().is_none());
    assert!(store.take_after_writes().is_empty());
    for n in (0..).take(2 * WAITING) {
        store.put(&storage, "ns", "a", object("a", n));
    }
    assert_eq!(store.take_after_writes().len(), 2 * WAITING);
}

/// SRV-STORE-10: a limited number of objects wait.
#[test]
fn a_write_leaves_serialising_to_later_within_a_bound() {
    let mut store = Store::new(1000, 1 << 30);
    let storage = storage(0);
    let put = |store: &mut Store, n: u64| {
        let owners =
            move |object: &Value| Some(format!("[{}]", object["metadata"]["resourceVersion"]));
        let draft = Draft::new(object("a", n), ManagedFields::later(owners));
        store.put(&storage, "ns", "a", draft)
    };
    let stored = put(&mut store, 1);
    assert!(!stored.is_serialised());
    store.take_after_writes().finish();
    assert!(stored.is_serialised());
    assert_eq!(stored.managed(), Some("[\"2\"]"));
    // The change in the log shares the text of the stored object.
    let last = store.changes(&storage, 1).unwrap().last().unwrap();
    assert_eq!(last.new.bytes().as_ptr(), stored.bytes().as_ptr());
    // If no caller finishes the work of writes, later writes serialise the oldest objects.
    let all: Vec<_> = (0..)
        .take(WAITING + 9)
        .map(|n| put(&mut store, n))
        .collect();
    let waiting = all.iter().filter(|one| !one.is_serialised());
    assert_eq!(waiting.count(), WAITING);
    assert!(all[..9].iter().all(|one| one.is_serialised()));
    store.compact(store.revision());
    assert!(all.iter().all(|one| one.is_serialised()));
}

/// SRV-STORE-10: restored objects are serialised at once, because no change in the log counts their bytes.
#[test]
fn restored_objects_are_serialised() {
    let mut store = Store::new(1000, 1 << 30);
    let stored = store.put(&storage(0), "ns", "a", object("a", 1));
    assert!(!stored.is_serialised());
    store.restore(9, &[(storage(0), vec![Arc::clone(&stored)])]);
    assert!(stored.is_serialised());
    assert_eq!(store.counted(), store.revision());
}

/// SRV-STORE-8: the managedFields of a revision may be those of the revision before, which may again be those of its
/// predecessor.
#[test]
fn owners_are_read_from_revisions_that_are_not_serialised() {
    let mut store = Store::new(1000, 1 << 30);
    let storage = storage(0);
    let owned = Draft::new(object("a", 0), Some("[]".to_owned()));
    let mut stored = store.put(&storage, "ns", "a", owned);
    for n in (1..).take(WAITING - 1) {
        let mut draft = stored.draft();
        assert!(stored.holds(&draft));
        draft.value["n"] = json!(n);
        assert!(!stored.holds(&draft));
        stored = store.put(&storage, "ns", "a", draft);
    }
    assert_eq!(stored.managed(), Some("[]"));
}

/// A panic in the computation of one object's managedFields neither ends the write that serialises the object, nor
/// makes the object unreadable.
#[test]
fn a_panic_of_managed_fields_costs_only_these_managed_fields() {
    let mut store = Store::new(1000, 1 << 30);
    let managed = ManagedFields::later(|_| panic!("a panic that this test expects"));
    let draft = Draft::new(object("a", 1), managed);
    let stored = store.put(&storage(0), "ns", "a", draft);
    for n in 0..=WAITING {
        store.put(&storage(0), "ns", &n.to_string(), object("b", 1));
    }
    assert!(stored.is_serialised());
    store.compact(store.revision());
    assert_eq!(store.counted(), store.revision());
    assert_eq!(stored.managed(), None);
    assert_eq!(stored.folded().lean(), stored.lean());
}
