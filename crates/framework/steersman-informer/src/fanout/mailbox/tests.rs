//! The replay of delivered events, coalesced or not, leads to the final state.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;
use crate::entry::Entry;

type Seen = BTreeMap<u8, RawEntry>;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Creates or changes an object.
    Put(u8),
    Delete(u8),
    /// Deletes an object and creates another with its name.
    Recreate(u8),
    /// Releases an object.
    Release(u8),
    /// Releases an object and stores it again, after its slot was lost and gained.
    Regain(u8),
    /// Makes an object leave a selector and come back.
    Return(u8),
    Resync(u8),
    Take(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let name = 0..5_u8;
    prop_oneof![
        4 => name.clone().prop_map(Act::Put),
        2 => name.clone().prop_map(Act::Delete),
        1 => name.clone().prop_map(Act::Recreate),
        1 => name.clone().prop_map(Act::Return),
        1 => name.clone().prop_map(Act::Release),
        1 => name.clone().prop_map(Act::Regain),
        1 => name.prop_map(Act::Resync),
        3 => (0..4_u8).prop_map(Act::Take),
    ]
}

fn named(number: usize) -> RawEntry {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("map-{number}"));
    Entry::new(map).cast()
}

fn object(name: u8, uid: u64, version: u64) -> RawEntry {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_string());
    map.metadata.uid = Some(uid.to_string());
    map.metadata.resource_version = Some(version.to_string());
    Entry::new(map).cast()
}

fn uid(entry: &RawEntry) -> u64 {
    entry.uid().to_string().parse().unwrap()
}

/// A store that sends events to a mailbox, and a subscriber that replays them.
struct Bench {
    mailbox: Mailbox,
    store: Seen,
    seen: Seen,
    version: u64,
    synced: u32,
    /// The initial objects that still exist.
    initial: BTreeMap<u8, u64>,
}

impl Bench {
    fn new(bound: usize, present: &BTreeSet<u8>) -> Self {
        let mut mailbox = Mailbox::new(bound);
        let present = present
            .iter()
            .map(|name| (*name, object(*name, u64::from(*name), 1)));
        let store: Seen = present.collect();
        mailbox.fill(store.values().cloned());
        mailbox.mark_synced();
        Self {
            mailbox,
            initial: store.keys().map(|name| (*name, u64::from(*name))).collect(),
            store,
            seen: Seen::new(),
            version: 1000,
            synced: 0,
        }
    }

    fn act(&mut self, act: Act) -> Result<(), TestCaseError> {
        self.version += 1;
        let version = self.version;
        match act {
            Act::Put(name) => {
                let old = self.store.get(&name).cloned();
                let uid = old.as_ref().map_or(version, uid);
                let new = object(name, uid, version);
                self.store.insert(name, new.clone());
                self.mailbox.push(match old {
                    Some(old) => Event::updated(old, new, Origin::Live),
                    None => Event::created(new, Origin::Live),
                });
            }
            Act::Delete(name) => self.delete(name),
            Act::Release(name) => {
                self.release(name);
            }
            Act::Regain(name) => {
                if let Some(released) = self.release(name) {
                    self.store.insert(name, released.clone());
                    self.mailbox.push(Event::created(released, Origin::Live));
                }
            }
            Act::Recreate(name) => {
                self.delete(name);
                let new = object(name, version, version);
                self.store.insert(name, new.clone());
                self.mailbox.push(Event::created(new, Origin::Live));
            }
            Act::Return(name) => {
                if let Some(uid) = self.store.get(&name).map(uid) {
                    self.delete(name);
                    self.version += 1;
                    let new = object(name, uid, self.version);
                    self.store.insert(name, new.clone());
                    self.mailbox.push(Event::created(new, Origin::Live));
                }
            }
            Act::Resync(name) => {
                if let Some(entry) = self.store.get(&name).cloned() {
                    let event = Event::updated(entry.clone(), entry, Origin::Resync);
                    self.mailbox.push(event);
                }
            }
            Act::Take(count) => {
                for _ in 0..count {
                    self.take()?;
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, name: u8) {
        if let Some(old) = self.store.remove(&name) {
            self.initial.remove(&name);
            // The delete has the version at which the object left the selector.
            let last = object(name, uid(&old), self.version);
            self.mailbox.push(Event::deleted(last, Certainty::Observed));
        }
    }

    fn release(&mut self, name: u8) -> Option<RawEntry> {
        let released = self.store.remove(&name)?;
        self.initial.remove(&name);
        self.mailbox.release(&released);
        Some(released)
    }

    /// Takes one delivery and replays it. Returns whether there was one.
    fn take(&mut self) -> Result<bool, TestCaseError> {
        let event = match self.mailbox.take() {
            Taken::Nothing => return Ok(false),
            Taken::Synced => {
                self.synced += 1;
                // Initial objects that still exist were delivered before the marker.
                for (name, uid) in &self.initial {
                    let seen = self.seen.get(name).map(|seen| seen.uid().to_string());
                    prop_assert_eq!(seen, Some(uid.to_string()));
                }
                return Ok(true);
            }
            // SHARD-4: only objects that were taken are released.
            Taken::Released(key) => {
                prop_assert!(self.seen.remove(&key.name().parse().unwrap()).is_some());
                return Ok(true);
            }
            Taken::Event(event) => event,
        };
        let name: u8 = event.key().name().parse().unwrap();
        match &event {
            // FAN-1
            Event::Created { new, origin } => {
                prop_assert!(self.seen.insert(name, new.clone()).is_none());
                prop_assert_eq!(*origin == Origin::Initial, self.synced == 0);
            }
            Event::Updated { old, new, .. } => {
                let before = self.seen.insert(name, new.clone());
                prop_assert!(before.is_some_and(|before| before.is_same_version_as(old)));
                prop_assert!(old.is_same_as(new));
            }
            // FAN-2: only objects that were taken are deleted.
            Event::Deleted { last_known, .. } => {
                let before = self.seen.remove(&name);
                prop_assert!(before.is_some_and(|before| before.is_same_as(last_known)));
            }
        }
        Ok(true)
    }
}

proptest! {
    // FAN-1, FAN-2, SHARD-4
    #[test]
    fn fan_2_replayed_events_equal_the_final_state(
        bound in prop_oneof![Just(0), 1..6_usize, Just(1000)],
        present in prop::collection::btree_set(0..5_u8, 0..5),
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut bench = Bench::new(bound, &present);
        for act in acts {
            bench.act(act)?;
            if bound < 1000 {
                // Five objects that were seen, five that exist, the marker, and the second event of a change.
                let most = bound.max(5) + 7;
                prop_assert!(bench.mailbox.len() <= most, "{}", bench.mailbox.len());
            }
        }
        while bench.take()? {}
        prop_assert_eq!(bench.synced, 1);
        let show = |seen: &Seen| -> Vec<String> {
            seen.values().map(|entry| format!("{entry:?}")).collect()
        };
        prop_assert_eq!(show(&bench.seen), show(&bench.store));
        prop_assert_eq!(bench.mailbox.len(), 0);
    }
}

// STORE-8
#[test]
fn store_8_an_emptied_mailbox_keeps_a_small_table() {
    let objects: Vec<RawEntry> = (0..10_000).map(named).collect();
    let mut mailbox = Mailbox::new(0);
    let mut go_through = |objects: &[RawEntry]| {
        let counted = allocation_counter::measure(|| {
            for object in objects {
                mailbox.push(Event::created(object.clone(), Origin::Live));
            }
            while !matches!(mailbox.take(), Taken::Nothing) {}
        });
        (counted.bytes_current, mailbox.positions.capacity())
    };
    // The buffer for the two events of a change stays small.
    assert!(go_through(&objects).0 < 1024);
    let (_, positions) = go_through(&objects[..1000]);
    assert!((1000..=KEPT).contains(&positions), "{positions}");
    assert_eq!(go_through(&objects[..1000]), (0, positions));
}

#[test]
fn within_the_bound_every_event_is_delivered() {
    let mut bench = Bench::new(1000, &BTreeSet::new());
    for _ in 0..10 {
        bench.act(Act::Put(1)).unwrap();
    }
    assert_eq!(bench.mailbox.len(), 11);
}

#[test]
fn a_coalesced_change_waits_at_the_position_of_its_newest_event() {
    let mut bench = Bench::new(0, &BTreeSet::from([1, 2]));
    while bench.take().unwrap() {}
    for act in [Act::Put(1), Act::Put(2), Act::Put(1)] {
        bench.act(act).unwrap();
    }
    let names: Vec<String> = std::iter::from_fn(|| match bench.mailbox.take() {
        Taken::Event(event) => Some(event.key().name().to_owned()),
        _ => None,
    })
    .collect();
    assert_eq!(names, ["2", "1"]);
}

#[test]
fn a_subscriber_that_caught_up_gets_every_event_again() {
    let mut bench = Bench::new(3, &BTreeSet::new());
    while bench.take().unwrap() {}
    for _ in 0..2 {
        for waiting in [1, 2, 3, 1, 1] {
            bench.act(Act::Put(1)).unwrap();
            assert_eq!(bench.mailbox.len(), waiting);
        }
        while bench.take().unwrap() {}
    }
}

#[test]
fn a_resync_does_not_alter_a_coalesced_change() {
    let mut bench = Bench::new(0, &BTreeSet::from([1]));
    while bench.take().unwrap() {}
    for act in [Act::Put(1), Act::Resync(1)] {
        bench.act(act).unwrap();
    }
    let Taken::Event(event) = bench.mailbox.take() else {
        panic!("{:?}", bench.mailbox)
    };
    assert_eq!(event.origin(), Origin::Live);
    bench.act(Act::Resync(1)).unwrap();
    let Taken::Event(event) = bench.mailbox.take() else {
        panic!("{:?}", bench.mailbox)
    };
    assert_eq!(event.origin(), Origin::Resync);
}

// SHARD-4
#[test]
fn shard_4_a_slow_subscriber_gets_a_release_and_a_create_of_an_object_that_was_regained() {
    let deliveries = |acts: &[Act]| -> Vec<String> {
        let mut bench = Bench::new(0, &BTreeSet::from([1]));
        while bench.take().unwrap() {}
        for act in acts {
            bench.act(*act).unwrap();
        }
        std::iter::from_fn(|| match bench.mailbox.take() {
            Taken::Event(event) if event.is_create() => Some("created"),
            Taken::Event(event) if event.is_delete() => Some("deleted"),
            Taken::Released(_) => Some("released"),
            _ => None,
        })
        .map(ToOwned::to_owned)
        .collect()
    };
    assert_eq!(deliveries(&[Act::Put(1), Act::Release(1)]), ["released"]);
    assert_eq!(deliveries(&[Act::Regain(1)]), ["released", "created"]);
    assert_eq!(
        deliveries(&[Act::Regain(1), Act::Put(1)]),
        ["released", "created"]
    );
    // FAN-2: the delete of the object that was taken is not lost.
    assert_eq!(
        deliveries(&[Act::Recreate(1), Act::Release(1)]),
        ["deleted"]
    );
    assert!(deliveries(&[Act::Put(2), Act::Release(2)]).is_empty());
}
