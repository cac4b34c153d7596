//! Decoding for views and indexes: once on arrival, and again if the views have changed since.

use super::*;

/// Returns a running core with a view, and an index that counts its calls.
fn counting() -> (Arc<Core>, Arc<ViewHandle>, Arc<AtomicU64>) {
    let (core, handle) = core(16);
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let value = move |map: &Map| {
        counted.fetch_add(1, Ordering::Relaxed);
        value(map)
    };
    core.add_index(&handle, index("value", value)).unwrap();
    (Arc::new(core), handle, asked)
}

/// Returns the object as the reflector gets it.
fn handed_on(core: &Arc<Core>, version: u64) -> Arrived {
    let metadata = format!(r#"{{"name":"m1","uid":"u","resourceVersion":"{version}"}}"#);
    let json = format!(r#"{{"metadata":{metadata},"data":{{"v":"{version}"}}}}"#);
    let object = RawObject::from_json(json.into_bytes()).unwrap();
    ingested_by(core, object, false)
}

fn all_of(arrived: Arrived) -> Delta {
    Delta::Replaced {
        version: ResourceVersion::new("9"),
        items: std::iter::once(arrived).collect(),
        projection: Projection::EveryField,
        relists: 0,
        slots: ListSlots::ALL,
    }
}

// VIEW-6
#[test]
fn view_6_an_index_function_runs_once_per_arriving_version() {
    let (core, handle, asked) = counting();
    core.apply(vec![all_of(handed_on(&core, 1))]);
    core.apply(vec![Delta::Put(handed_on(&core, 2))]);
    // A list without changes.
    core.apply(vec![all_of(handed_on(&core, 2))]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_agrees(&core.shared.indexer.read(), &handle, "value");
}

// VIEW-6
#[test]
fn view_6_objects_that_arrived_before_an_index_or_view_are_judged_by_it() {
    for list in [true, false] {
        let (core, handle, asked) = counting();
        let arrived = handed_on(&core, 1);
        core.add_index(&handle, index("later", value)).unwrap();
        let other = core.view::<Metadata>();
        core.apply(vec![if list {
            all_of(arrived)
        } else {
            Delta::Put(arrived)
        }]);
        for index in ["value", "later"] {
            assert_agrees(&core.shared.indexer.read(), &handle, index);
        }
        let key = ObjectKey::cluster_scoped("m1");
        assert!(core.store::<Metadata>(&other).get(&key).is_some());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}

// RYOW-2: a task that waits for a version checks again after each event, bookmark and list.
#[test]
fn ryow_2_events_bookmarks_and_lists_advance_the_observed_state() {
    let (core, _held) = core(8);
    let key = ObjectKey::cluster_scoped("m1");
    let mut applied = core.applied.subscribe();
    let version = ResourceVersion::new("9");
    for (delta, has_come_to, stored) in [
        (replaced(5, 1..2), "5", Some("5")),
        (put(1, 7), "7", Some("7")),
        (Delta::Bookmark { version }, "9", Some("7")),
        (replaced(12, 2..3), "12", None),
    ] {
        applied.borrow_and_update();
        core.apply(vec![delta]);
        assert!(applied.has_changed().unwrap(), "{has_come_to}");
        let indexer = core.shared.indexer.read();
        assert_eq!(indexer.version().as_str(), has_come_to);
        let version = indexer.get(&key).map(|entry| entry.version().as_str());
        assert_eq!(version, stored);
    }
}
