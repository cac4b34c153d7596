//! Deltas of slots that were lost before the deltas are applied.

use steersman_object::{ShardBy, ShardSlot, SlotSet};

use super::*;
use crate::shard_filter::ShardFilter;

fn slot(number: u64) -> ShardSlot {
    ShardBy::Namespace.slot_of(&ObjectKey::cluster_scoped(format!("m{number}")))
}

fn slots(numbers: impl IntoIterator<Item = u64>) -> SlotSet {
    numbers.into_iter().map(slot).collect()
}

/// Returns a list of the wanted slots, as it begins now, with these objects.
fn listed(core: &Core, version: u64, numbers: [u64; 2]) -> Delta {
    let slots = core.slots.as_ref().unwrap().begin_list(true);
    let Delta::Replaced {
        version,
        items,
        projection,
        relists,
        ..
    } = replaced(version, numbers.into_iter())
    else {
        unreachable!()
    };
    Delta::Replaced {
        version,
        items,
        projection,
        relists,
        slots,
    }
}

fn stored(core: &Core) -> Vec<String> {
    let indexer = core.shared.indexer.read();
    let names = indexer
        .entries(None)
        .map(|entry| entry.key().name().to_owned());
    names.collect()
}

// SHARD-4, SHARD-6
#[test]
fn shard_4_waiting_deltas_do_not_bring_objects_of_a_lost_slot_back() {
    let (wanted, receiver) = watch::channel(slots([1, 2]));
    assert_eq!(wanted.borrow().len(), 2);
    let filter = ShardFilter::new(ShardBy::Namespace, receiver);
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new().shards(filter));
    core.start();
    let handle = core.view::<Map>();
    let mut seen = core.subscribe::<Map>(&handle);
    let first = listed(&core, 10, [1, 2]);
    core.apply(vec![first]);
    assert_eq!(stored(&core), ["m1", "m2"]);
    assert_eq!(waiting(&mut seen).len(), 3);
    // The slot is lost and gained again while an event and a list wait.
    let list = listed(&core, 11, [1, 2]);
    wanted.send_replace(slots([1]));
    let followed = core.slots.as_ref().unwrap().followed();
    assert_eq!(followed, slots([1]));
    wanted.send_replace(slots([1, 2]));
    core.apply(vec![put(2, 12), put(1, 13)]);
    assert_eq!(stored(&core), ["m1"]);
    let words = waiting(&mut seen);
    assert_eq!(words[0], "released m2");
    assert_eq!(words.len(), 2, "{words:?}");
    core.apply(vec![list]);
    assert_eq!(
        (stored(&core), *core.loaded.borrow()),
        (vec!["m1".to_owned()], slots([1]))
    );
    assert_eq!(core.knows(&ObjectKey::cluster_scoped("m2")), None);
    // The slot is loaded by the next list, which began after the gain.
    let next = listed(&core, 20, [1, 2]);
    core.apply(vec![put(2, 15), next]);
    assert_eq!(stored(&core), ["m1", "m2"]);
    assert_eq!(core.knows(&ObjectKey::cluster_scoped("m2")), Some(true));
    assert_eq!(*core.loaded.borrow(), slots([1, 2]));
    let words = waiting(&mut seen);
    assert_eq!(
        words.len(),
        3,
        "two lists change m1, and m2 is created: {words:?}"
    );
}

// SHARD-5
#[test]
fn shard_5_a_foreign_event_advances_the_store() {
    let (core, _handle) = core(10);
    core.apply(vec![replaced(10, 0..1)]);
    let version = ResourceVersion::new("12");
    core.apply(vec![Delta::Passed {
        version: version.clone(),
    }]);
    assert_eq!(*core.shared.indexer.read().version(), version);
}

// SHARD-9
#[test]
fn shard_9_without_a_filter_all_slots_are_loaded_by_the_first_list() {
    let (core, _handle) = core(10);
    let key = ObjectKey::cluster_scoped("m9");
    assert!(core.loaded.borrow().is_empty());
    core.apply(vec![replaced(10, 0..1)]);
    assert_eq!(*core.loaded.borrow(), SlotSet::ALL);
    assert_eq!(core.knows(&key), Some(false));
}
