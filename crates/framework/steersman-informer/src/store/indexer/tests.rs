//! The indexer, compared with a naive map.

mod room;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;
use crate::entry::Entry;
use crate::event::{Event, RawEvent};
use crate::store::index::{Index, IndexFn};

type Map = ConfigMap;

/// The naive map, from a name to uid and version.
type World = BTreeMap<u8, (u8, u64)>;

#[derive(Clone, Debug)]
enum Said {
    Put(u8),
    /// Another object with the same name.
    Recreated(u8),
    Removed(u8),
    Broken(u8),
    /// An object that decodes only as other types than the view's.
    Odd(u8),
    Relist(Vec<(u8, Listed)>),
    Resync,
}

#[derive(Clone, Copy, Debug)]
enum Listed {
    Same,
    Newer,
    Recreated,
    Broken,
    Odd,
}

fn object(name: u8, uid: u8, version: u64) -> RawEntry {
    let mut map = Map::default();
    map.metadata.namespace = Some(format!("ns{}", name % 3));
    map.metadata.name = Some(name.to_string());
    map.metadata.uid = Some(uid.to_string());
    map.metadata.resource_version = Some(version.to_string());
    Entry::new(map).cast()
}

fn key(name: u8) -> ObjectKey {
    ObjectKey::namespaced(format!("ns{}", name % 3), name.to_string())
}

fn broken(name: u8, uid: u8, version: u64) -> DeltaItem {
    let version = ResourceVersion::new(version.to_string());
    Malformed::new(key(name), uid.to_string(), version, "broken").into()
}

/// Returns two values per object: its uid, and the last digit of its version.
fn values(entry: &RawEntry) -> Vec<String> {
    let version = entry.version().as_str();
    vec![
        format!("uid {}", entry.uid()),
        format!("digit {}", &version[version.len() - 1..]),
    ]
}

fn filed(entry: &RawEntry) -> ViewResults {
    let values = values(entry).into_iter().map(Arc::from);
    ViewResults::from_iter([Ok(vec![values.collect()])])
}

fn unreadable() -> ViewResults {
    ViewResults::from_iter([Err("odd".into())])
}

fn said() -> impl Strategy<Value = Said> {
    let name = 0..6_u8;
    let listed = prop_oneof![
        3 => Just(Listed::Same),
        2 => Just(Listed::Newer),
        1 => Just(Listed::Recreated),
        1 => Just(Listed::Broken),
        1 => Just(Listed::Odd),
    ];
    let relist = prop::collection::btree_map(name.clone(), listed, 0..6);
    prop_oneof![
        4 => name.clone().prop_map(Said::Put),
        1 => name.clone().prop_map(Said::Recreated),
        2 => name.clone().prop_map(Said::Removed),
        1 => name.clone().prop_map(Said::Broken),
        2 => name.prop_map(Said::Odd),
        2 => relist.prop_map(|r| Said::Relist(r.into_iter().collect())),
        1 => Just(Said::Resync),
    ]
}

/// Applies inputs to an indexer and to a naive map.
struct Bench {
    indexer: Indexer,
    handle: Arc<ViewHandle>,
    /// The objects that the view should see.
    world: World,
    bad: BTreeSet<u8>,
    version: u64,
    uids: u8,
    /// The uid of each name on the server.
    known: BTreeMap<u8, u8>,
}

impl Bench {
    fn new() -> Self {
        let mut indexer = Indexer::default();
        let handle = Arc::new(ViewHandle::new::<Map>(1));
        let mut view = View::new::<Map>(&handle, true);
        let function: IndexFn = Arc::new(|_| Ok(Vec::new()));
        let mut view_effects = ViewEffects::nothing(handle.id);
        view.add_index(Index::new("facts", function), Vec::new(), &mut view_effects);
        indexer.add_view(view);
        Self {
            indexer,
            handle,
            world: World::new(),
            bad: BTreeSet::new(),
            version: 1,
            uids: 0,
            known: BTreeMap::new(),
        }
    }

    fn view(&self) -> &View {
        self.indexer.view(self.handle.id).unwrap()
    }

    fn uid(&mut self, name: u8, fresh: bool) -> u8 {
        if fresh || !self.known.contains_key(&name) {
            self.uids = self.uids.wrapping_add(1);
            self.known.insert(name, self.uids);
        }
        self.known[&name]
    }

    fn step(&mut self, said: Said) -> Effects {
        self.version += 1;
        let version = self.version;
        let mut effects = self.indexer.unchanged();
        let change = match said {
            Said::Put(name) | Said::Recreated(name) => {
                let uid = self.uid(name, matches!(said, Said::Recreated(_)));
                self.world.insert(name, (uid, version));
                self.bad.remove(&name);
                let entry = object(name, uid, version);
                let results = filed(&entry);
                StoreChange::Put(Decoded::Good(entry), results)
            }
            Said::Removed(name) => {
                let uid = self.uid(name, false);
                self.world.remove(&name);
                self.bad.remove(&name);
                self.known.remove(&name);
                let entry = object(name, uid, version);
                let results = filed(&entry);
                StoreChange::Removed(Decoded::Good(entry), results)
            }
            Said::Broken(name) => {
                let uid = self.uid(name, false);
                self.bad.insert(name);
                StoreChange::Put(broken(name, uid, version), ViewResults::default())
            }
            Said::Odd(name) => {
                let uid = self.uid(name, false);
                self.bad.insert(name);
                StoreChange::Put(Decoded::Good(object(name, uid, version)), unreadable())
            }
            Said::Resync => return self.indexer.repeated(),
            Said::Relist(listed) => return self.relist(listed),
        };
        self.indexer.apply(change, &mut effects);
        effects
    }

    fn relist(&mut self, listed: Vec<(u8, Listed)>) -> Effects {
        let version = self.version;
        let mut items = Vec::new();
        let mut world = World::new();
        let names: BTreeSet<u8> = listed.iter().map(|(name, _)| *name).collect();
        self.known.retain(|name, _| names.contains(name));
        self.bad.clear();
        for (name, listed) in listed {
            let before = self.world.get(&name).copied();
            let fresh = matches!(listed, Listed::Recreated);
            let uid = self.uid(name, fresh);
            match (listed, before) {
                (Listed::Broken, before) => {
                    self.bad.insert(name);
                    world.extend(before.map(|before| (name, before)));
                    items.push((broken(name, uid, version), ViewResults::default()));
                }
                (Listed::Odd, before) => {
                    self.bad.insert(name);
                    world.extend(before.map(|before| (name, before)));
                    let entry = object(name, uid, version);
                    items.push((Decoded::Good(entry), unreadable()));
                }
                (listed, before) => {
                    // A list is never older than a malformed version.
                    let stored = self.indexer.get(&key(name)).map(RawEntry::version);
                    let stored = stored.map(ToString::to_string);
                    let same = before.filter(|(_, version)| {
                        matches!(listed, Listed::Same) && stored == Some(version.to_string())
                    });
                    let (uid, version) = same.unwrap_or((uid, version));
                    world.insert(name, (uid, version));
                    let entry = object(name, uid, version);
                    let results = filed(&entry);
                    items.push((Decoded::Good(entry), results));
                }
            }
        }
        self.world = world;
        let relist = relist(items.len(), &version.to_string());
        let (next, effects) = self.indexer.replaced(items.into_iter(), relist, |_| true);
        self.indexer = next;
        effects
    }
}

/// Returns a relist with this number of objects.
fn relist(objects: usize, version: &str) -> Relist {
    Relist {
        objects,
        version: ResourceVersion::new(version),
        origin: Origin::Live,
        projection: Projection::Whole,
        loaded: SlotSet::ALL,
    }
}

fn world_of(bench: &Bench) -> World {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let entries = bench.indexer.seen(bench.view(), None);
    entries
        .map(|entry| {
            let name = number(entry.key().name());
            let uid = number(&entry.uid().to_string());
            let version = number(entry.version().as_str());
            (name.try_into().unwrap(), (uid.try_into().unwrap(), version))
        })
        .collect()
}

fn name_of(event: &RawEvent) -> u8 {
    event.key().name().parse().unwrap()
}

proptest! {
    // STORE-1, STORE-3, STORE-4, VIEW-1
    #[test]
    fn objects_indexes_and_events_agree_with_a_naive_map(
        script in prop::collection::vec(said(), 0..40),
    ) {
        let mut bench = Bench::new();
        // The map that a subscriber builds from events alone.
        let mut seen: BTreeMap<u8, RawEntry> = BTreeMap::new();
        for said in script {
            let resync = matches!(said, Said::Resync);
            let effects = bench.step(said);
            for event in effects.views.into_iter().flat_map(|view_effects| view_effects.events) {
                let name = name_of(&event);
                match &event {
                    Event::Created { new, .. } => {
                        prop_assert!(seen.insert(name, new.clone()).is_none());
                    }
                    Event::Updated { old, new, .. } => {
                        let before = seen.insert(name, new.clone());
                        prop_assert!(before.is_some_and(|before| before.is_same_version_as(old)));
                        prop_assert!(old.is_same_as(new));
                        prop_assert_eq!(resync, old.is_same_version_as(new));
                    }
                    Event::Deleted { last_known, .. } => {
                        let before = seen.remove(&name);
                        prop_assert!(before.is_some_and(|before| before.is_same_as(last_known)));
                    }
                }
            }
            prop_assert_eq!(&world_of(&bench), &bench.world);
            let shown: Vec<_> = seen.values().map(|e| format!("{e:?}")).collect();
            let stored: BTreeMap<u8, _> = bench.indexer.seen(bench.view(), None)
                .map(|e| (e.key().name().parse().unwrap(), format!("{e:?}")))
                .collect();
            prop_assert_eq!(shown, stored.into_values().collect::<Vec<_>>());
            let aside = bench.view().malformed().map(|malformed| &malformed.key);
            let bad: BTreeSet<u8> = bench.indexer.malformed().keys().chain(aside)
                .map(|key| key.name().parse().unwrap())
                .collect();
            prop_assert_eq!(&bad, &bench.bad);
            prop_assert_eq!(bench.indexer.unreadable(), bad.len());
            check_indexes(&bench)?;
        }
    }
}

fn check_indexes(bench: &Bench) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let indexer = &bench.indexer;
    let index = bench.view().index("facts").unwrap();
    for entry in indexer.seen(bench.view(), None) {
        for value in values(entry) {
            expected
                .entry(value)
                .or_default()
                .push(format!("{entry:?}"));
        }
    }
    let digits = (0..10).map(|d| format!("digit {d}"));
    let uids = (0..=u8::MAX).map(|u| format!("uid {u}"));
    for value in digits.chain(uids) {
        let found = index.get(&value).into_iter().flat_map(Ordered::iter);
        let found: Vec<_> = found.map(|entry| format!("{entry:?}")).collect();
        prop_assert_eq!(found, expected.remove(&value).unwrap_or_default());
    }
    for namespace in ["ns0", "ns1", "ns2", "ns", "ns3"] {
        let within: Vec<_> = indexer.entries(Some(namespace)).map(Entry::key).collect();
        let all = indexer.entries(None).map(Entry::key);
        let filtered: Vec<_> = all.filter(|k| k.namespace() == Some(namespace)).collect();
        prop_assert_eq!(within, filtered);
    }
    Ok(())
}

#[test]
fn a_malformed_version_is_reported_once() {
    let mut bench = Bench::new();
    let mut effects = bench.indexer.unchanged();
    for _ in 0..3 {
        let change = StoreChange::Put(broken(1, 7, 5), ViewResults::default());
        bench.indexer.apply(change, &mut effects);
    }
    assert_eq!(effects.malformed.len(), 1);
    let items = [(broken(1, 7, 5), ViewResults::default())];
    let (next, effects) = bench
        .indexer
        .replaced(items.into_iter(), relist(1, "9"), |_| true);
    assert!(effects.malformed.is_empty());
    bench.indexer = next;
    let mut effects = bench.indexer.unchanged();
    let change = StoreChange::Put(broken(1, 7, 6), ViewResults::default());
    bench.indexer.apply(change, &mut effects);
    assert_eq!(effects.malformed.len(), 1);
}

// VIEW-1
#[test]
fn view_1_an_object_that_one_type_cannot_decode_is_reported_once_and_for_that_view() {
    let mut bench = Bench::new();
    let mut effects = bench.indexer.unchanged();
    for version in [5, 5, 6] {
        let odd = Decoded::Good(object(1, 7, version));
        bench
            .indexer
            .apply(StoreChange::Put(odd, unreadable()), &mut effects);
    }
    assert!(effects.malformed.is_empty());
    assert_eq!(effects.views[0].malformed.len(), 2);
    assert!(effects.views[0].events.is_empty());
    assert_eq!(bench.indexer.len(), 1);
}

#[test]
fn the_number_of_unreadable_objects_is_kept_up_to_date() {
    let mut bench = Bench::new();
    let mut effects = bench.indexer.unchanged();
    for name in 0..100 {
        let odd = Decoded::Good(object(name, 7, 5));
        let change = StoreChange::Put(odd, unreadable());
        bench.indexer.apply(change, &mut effects);
    }
    let counted = allocation_counter::measure(|| assert_eq!(bench.indexer.unreadable(), 100));
    assert_eq!(counted.count_total, 0);
    // The last handle is dropped.
    drop(std::mem::replace(
        &mut bench.handle,
        Arc::new(ViewHandle::new::<Map>(2)),
    ));
    bench.indexer.drop_unused_views();
    assert_eq!(bench.indexer.unreadable(), 0);
    // A second view, which has no version of the malformed object.
    let view = View::new::<Map>(&bench.handle, true);
    bench.indexer.add_view(view);
    let broken = StoreChange::Put(broken(1, 7, 6), ViewResults::default());
    let odd = StoreChange::Put(Decoded::Good(object(2, 7, 6)), unreadable());
    let mut effects = bench.indexer.unchanged();
    bench.indexer.apply(broken, &mut effects);
    bench.indexer.apply(odd, &mut effects);
    assert_eq!(bench.indexer.unreadable(), 2);
    let failures = [1, 3].map(|name| {
        let stored = bench.indexer.get(&key(name)).unwrap().clone();
        (stored, "odd".into())
    });
    let (index, id) = (
        Index::new("odd", Arc::new(|_| Ok(Vec::new()))),
        bench.handle.id,
    );
    let mut view_effects = ViewEffects::nothing(id);
    bench
        .indexer
        .add_index(id, index, failures.into(), &mut view_effects);
    assert_eq!(bench.indexer.unreadable(), 3);
}

#[test]
fn a_view_without_handles_is_dropped() {
    let mut bench = Bench::new();
    bench.indexer.drop_unused_views();
    assert_eq!(bench.indexer.views().len(), 1);
    let Bench {
        mut indexer,
        handle,
        ..
    } = bench;
    drop(handle);
    indexer.drop_unused_views();
    assert!(indexer.views().is_empty());
}

#[test]
fn a_repeated_event_changes_nothing() {
    let mut bench = Bench::new();
    let mut effects = bench.indexer.unchanged();
    for _ in 0..2 {
        let entry = object(1, 1, 5);
        let results = filed(&entry);
        let change = StoreChange::Put(Decoded::Good(entry), results);
        bench.indexer.apply(change, &mut effects);
    }
    assert_eq!(effects.views[0].events.len(), 1);
}

/// Returns the events of one change as text.
fn events_of(bench: &mut Bench, change: StoreChange) -> Vec<String> {
    let mut effects = bench.indexer.unchanged();
    bench.indexer.apply(change, &mut effects);
    let events = effects
        .views
        .iter()
        .flat_map(|view_effects| &view_effects.events);
    let words = events.map(|event| {
        let certain = if event.final_state_unknown() { "?" } else { "" };
        let sign = if event.is_delete() { "-" } else { "+" };
        format!("{sign}{}{certain}", event.entry().uid())
    });
    words.collect()
}

// STORE-4
#[test]
fn store_4_another_uid_is_neither_the_final_state_nor_a_version_of_the_stored_object() {
    let mut bench = Bench::new();
    bench.step(Said::Put(1));
    let other = object(1, 99, 50);
    let results = filed(&other);
    let removed = StoreChange::Removed(Decoded::Good(other), results);
    assert_eq!(events_of(&mut bench, removed), ["-1?"]);

    bench.step(Said::Put(2));
    let broken = StoreChange::Put(broken(2, 99, 60), ViewResults::default());
    assert_eq!(events_of(&mut bench, broken), ["-2?"]);
    assert!(bench.indexer.get(&key(2)).is_none());
    assert_eq!(bench.indexer.malformed()[&key(2)].uid, "99");
}
