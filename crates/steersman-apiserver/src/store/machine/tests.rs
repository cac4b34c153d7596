//! The store against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(name: &str, n: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": name}, "n": n})
}

fn storage(index: u8) -> StorageKey {
    StorageKey::new("test", if index == 0 { "ones" } else { "twos" })
}

/// What an operation of the model does.
#[derive(Debug, Clone)]
enum Op {
    Put(u8, u8, u8),
    Delete(u8, u8, u8),
    Compact(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..2u8, 0..2u8, 0..4u8).prop_map(|(s, ns, n)| Op::Put(s, ns, n)),
        3 => (0..2u8, 0..2u8, 0..4u8).prop_map(|(s, ns, n)| Op::Delete(s, ns, n)),
        1 => (0..20u8).prop_map(Op::Compact),
    ]
}

/// The model: every past state of every storage, kept whole.
type World = BTreeMap<(u8, String, String), u64>;

fn of(world: &World, storage: u8) -> Vec<(String, String, u64)> {
    let of = world.iter().filter(|((s, _, _), _)| *s == storage);
    of.map(|((_, ns, name), revision)| (ns.clone(), name.clone(), *revision))
        .collect()
}

fn seen(list: &[Arc<Stored>]) -> Vec<(String, String, u64)> {
    list.iter()
        .map(|s| (s.namespace.to_string(), s.name.to_string(), s.revision))
        .collect()
}

proptest! {
    // SRV-STORE-1, SRV-STORE-3: every readable revision lists as it was, and replaying the log
    // from it leads to the newest state.
    #[test]
    fn reads_and_replays_every_retained_revision(
        ops in prop::collection::vec(op(), 1..120),
        retained in 2..60usize,
    ) {
        let mut store = Store::new(retained);
        let mut world = World::new();
        let mut past: BTreeMap<u64, World> = BTreeMap::from([(store.revision(), world.clone())]);
        for op in ops {
            match op {
                Op::Put(s, ns, n) => {
                    let (ns, name) = (format!("ns{ns}"), format!("n{n}"));
                    let stored = store.put(&storage(s), &ns, &name, object(&name, 1));
                    prop_assert_eq!(stored.revision, store.revision());
                    prop_assert_eq!(stored.meta("resourceVersion"), stored.revision.to_string());
                    world.insert((s, ns, name), stored.revision);
                }
                Op::Delete(s, ns, n) => {
                    let (ns, name) = (format!("ns{ns}"), format!("n{n}"));
                    let gone = store.delete(&storage(s), &ns, &name);
                    prop_assert_eq!(gone.is_some(), world.remove(&(s, ns, name)).is_some());
                }
                Op::Compact(back) => {
                    let to = store.revision().saturating_sub(u64::from(back));
                    store.compact(to);
                }
            }
            past.insert(store.revision(), world.clone());
            prop_assert!(store.revision() - store.compacted() <= retained as u64);
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
                let mut replayed: BTreeMap<_, _> =
                    listed.iter().map(|x| (key_of(x), x.revision)).collect();
                let mut last = *revision;
                let changes = store.changes(&storage(s), *revision);
                for change in changes.map_err(|e| TestCaseError::fail(format!("{e:?}")))? {
                    prop_assert!(change.revision > last);
                    last = change.revision;
                    if change.deleted {
                        prop_assert!(replayed.remove(&key_of(&change.new)).is_some());
                    } else {
                        let before = replayed.insert(key_of(&change.new), change.revision);
                        prop_assert_eq!(before, change.old.as_ref().map(|old| old.revision));
                    }
                }
                let now: Vec<_> = replayed
                    .into_iter()
                    .map(|((ns, n), r)| (ns.to_string(), n.to_string(), r))
                    .collect();
                prop_assert_eq!(now, of(&world, s));
            }
        }
    }
}

#[test]
fn bytes_begin_with_kind_and_version_and_items_drop_them() {
    let mut store = Store::new(10);
    let stored = store.put(&storage(0), "a", "x", object("x", 3));
    let text = std::str::from_utf8(&stored.bytes).unwrap();
    assert_eq!(
        text,
        r#"{"kind":"T","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"2"},"n":3}"#
    );
    let item = &text[stored.after_type..];
    assert_eq!(
        item,
        r#""metadata":{"name":"x","resourceVersion":"2"},"n":3}"#
    );
}

#[test]
fn a_future_revision_is_not_readable() {
    let store = Store::new(10);
    let listed = store.list_at(&storage(0), None, 9);
    assert_eq!(listed.err(), Some(Unreadable::Future { current: 1 }));
}

/// SRV-STORE-4: other storages' writes do not expire a quiet position.
#[test]
fn a_quiet_position_survives_compaction() {
    let mut store = Store::new(10);
    let quiet = store.put(&storage(0), "", "q", object("q", 0)).revision;
    for n in 0..50 {
        store.put(&storage(1), "", "busy", object("busy", n));
    }
    assert!(store.compacted() > quiet);
    assert_eq!(store.changes(&storage(0), quiet).unwrap().count(), 0);
    assert!(store.changes(&storage(1), quiet).is_err());
    assert!(store.changes(&storage(0), quiet - 1).is_err());
}

/// SRV-STORE-2: a reader keeps what it read while the object moves on.
#[test]
fn a_held_revision_does_not_change() {
    let mut store = Store::new(10);
    let held = store.put(&storage(0), "", "x", object("x", 1));
    store.put(&storage(0), "", "x", object("x", 2));
    let tombstone = store.delete(&storage(0), "", "x").unwrap();
    assert_eq!(held.value["n"], 1);
    assert_eq!(tombstone.value["n"], 2);
    assert!(tombstone.revision > held.revision);
}
