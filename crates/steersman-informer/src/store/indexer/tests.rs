//! The indexer against a naive map.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;

type Map = ConfigMap;

/// What a naive implementation would hold: name to uid and version.
type World = BTreeMap<u8, (u8, u64)>;

#[derive(Clone, Debug)]
enum Said {
    Put(u8),
    /// The same name with another uid.
    Recreated(u8),
    Removed(u8),
    Broken(u8),
    Relist(Vec<(u8, Listed)>),
    Resync,
}

#[derive(Clone, Copy, Debug)]
enum Listed {
    Same,
    Newer,
    Recreated,
    Broken,
}

fn object(name: u8, uid: u8, version: u64) -> Entry<Map> {
    let mut map = Map::default();
    map.metadata.namespace = Some(format!("ns{}", name % 3));
    map.metadata.name = Some(name.to_string());
    map.metadata.uid = Some(uid.to_string());
    map.metadata.resource_version = Some(version.to_string());
    Entry::new(map)
}

fn key(name: u8) -> ObjectKey {
    ObjectKey::namespaced(format!("ns{}", name % 3), name.to_string())
}

fn broken(name: u8, uid: u8, version: u64) -> Item<Map> {
    let version = ResourceVersion::new(version.to_string());
    Decoded::Malformed(Malformed::new(
        key(name),
        uid.to_string(),
        version,
        "broken",
    ))
}

/// Two values per object: its uid, and the last digit of its version.
fn values(entry: &Entry<Map>) -> Vec<String> {
    let version = entry.version().as_str();
    vec![
        format!("uid {}", entry.uid()),
        format!("digit {}", &version[version.len() - 1..]),
    ]
}

fn filed(entry: &Entry<Map>) -> Values {
    let values = values(entry).into_iter().map(Arc::from);
    Some(vec![values.collect()])
}

fn said() -> impl Strategy<Value = Said> {
    let name = 0..6_u8;
    let listed = prop_oneof![
        3 => Just(Listed::Same),
        2 => Just(Listed::Newer),
        1 => Just(Listed::Recreated),
        1 => Just(Listed::Broken),
    ];
    let relist = prop::collection::btree_map(name.clone(), listed, 0..6);
    prop_oneof![
        4 => name.clone().prop_map(Said::Put),
        1 => name.clone().prop_map(Said::Recreated),
        2 => name.clone().prop_map(Said::Removed),
        1 => name.prop_map(Said::Broken),
        2 => relist.prop_map(|r| Said::Relist(r.into_iter().collect())),
        1 => Just(Said::Resync),
    ]
}

/// Runs what the server said through an indexer and a naive world beside it.
struct Bench {
    indexer: Indexer<Map>,
    world: World,
    bad: BTreeSet<u8>,
    version: u64,
    uids: u8,
}

impl Bench {
    fn new() -> Self {
        let mut indexer = Indexer::default();
        let function: IndexFn<Map> = Arc::new(|_| Vec::new());
        indexer.add_index(Indexer::filled_index("facts", function, &[]));
        Self {
            indexer,
            world: World::new(),
            bad: BTreeSet::new(),
            version: 1,
            uids: 0,
        }
    }

    fn uid(&mut self, name: u8, fresh: bool) -> u8 {
        match self.world.get(&name) {
            Some((uid, _)) if !fresh => *uid,
            _ => {
                self.uids = self.uids.wrapping_add(1);
                self.uids
            }
        }
    }

    fn step(&mut self, said: Said) -> Applied<Map> {
        self.version += 1;
        let version = self.version;
        let mut applied = Applied::default();
        let change = match said {
            Said::Put(name) | Said::Recreated(name) => {
                let uid = self.uid(name, matches!(said, Said::Recreated(_)));
                self.world.insert(name, (uid, version));
                self.bad.remove(&name);
                let entry = object(name, uid, version);
                let values = filed(&entry);
                Change::Put(Decoded::Good(entry), values)
            }
            Said::Removed(name) => {
                let uid = self.uid(name, false);
                self.world.remove(&name);
                self.bad.remove(&name);
                Change::Removed(Decoded::Good(object(name, uid, version)))
            }
            Said::Broken(name) => {
                let uid = self.uid(name, false);
                self.bad.insert(name);
                Change::Put(broken(name, uid, version), None)
            }
            Said::Resync => Change::Resync,
            Said::Relist(listed) => return self.relist(listed),
        };
        self.indexer.apply(change, &mut applied);
        applied
    }

    fn relist(&mut self, listed: Vec<(u8, Listed)>) -> Applied<Map> {
        let version = self.version;
        let mut items = Vec::new();
        let mut world = World::new();
        self.bad.clear();
        for (name, listed) in listed {
            let before = self.world.get(&name).copied();
            let fresh = matches!(listed, Listed::Recreated);
            let uid = self.uid(name, fresh);
            match (listed, before) {
                (Listed::Broken, before) => {
                    self.bad.insert(name);
                    world.extend(before.map(|before| (name, before)));
                    items.push((broken(name, uid, version), None));
                }
                (Listed::Same, Some((uid, version))) => {
                    world.insert(name, (uid, version));
                    items.push((Decoded::Good(object(name, uid, version)), None));
                }
                _ => {
                    world.insert(name, (uid, version));
                    let entry = object(name, uid, version);
                    let values = filed(&entry);
                    items.push((Decoded::Good(entry), values));
                }
            }
        }
        self.world = world;
        let version = ResourceVersion::new(version.to_string());
        let (next, applied) = self.indexer.replaced(items, version, Origin::Live);
        self.indexer = next;
        applied
    }
}

fn world_of(indexer: &Indexer<Map>) -> World {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let entries = indexer.entries(None);
    entries
        .map(|entry| {
            let name = number(entry.key().name());
            let uid = number(entry.uid());
            let version = number(entry.version().as_str());
            (name.try_into().unwrap(), (uid.try_into().unwrap(), version))
        })
        .collect()
}

fn name_of(event: &Event<Map>) -> u8 {
    event.key().name().parse().unwrap()
}

proptest! {
    // STORE-1, STORE-3, STORE-4
    #[test]
    fn objects_indexes_and_events_agree_with_a_naive_map(
        script in prop::collection::vec(said(), 0..40),
    ) {
        let mut bench = Bench::new();
        // The world as an onlooker who has only the events sees it.
        let mut seen: BTreeMap<u8, Entry<Map>> = BTreeMap::new();
        for said in script {
            let resync = matches!(said, Said::Resync);
            let applied = bench.step(said);
            for event in applied.events {
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
            prop_assert_eq!(&world_of(&bench.indexer), &bench.world);
            prop_assert_eq!(bench.indexer.len(), bench.world.len());
            let shown: Vec<_> = seen.values().map(|e| format!("{e:?}")).collect();
            let stored: BTreeMap<u8, _> = bench.indexer.entries(None)
                .map(|e| (e.key().name().parse().unwrap(), format!("{e:?}")))
                .collect();
            prop_assert_eq!(shown, stored.into_values().collect::<Vec<_>>());
            let bad: BTreeSet<u8> = bench.indexer.malformed().keys()
                .map(|key| key.name().parse().unwrap())
                .collect();
            prop_assert_eq!(&bad, &bench.bad);
            check_indexes(&bench.indexer)?;
        }
    }
}

fn check_indexes(indexer: &Indexer<Map>) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in indexer.entries(None) {
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
        let found = indexer.indexed("facts", &value, None).into_iter().flatten();
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
fn a_malformed_version_is_told_once() {
    let mut bench = Bench::new();
    let mut applied = Applied::default();
    for _ in 0..3 {
        let change = Change::Put(broken(1, 7, 5), None);
        bench.indexer.apply(change, &mut applied);
    }
    assert_eq!(applied.malformed.len(), 1);
    let version = ResourceVersion::new("9");
    let (next, applied) =
        bench
            .indexer
            .replaced(vec![(broken(1, 7, 5), None)], version, Origin::Live);
    assert!(applied.malformed.is_empty());
    bench.indexer = next;
    let mut applied = Applied::default();
    bench
        .indexer
        .apply(Change::Put(broken(1, 7, 6), None), &mut applied);
    assert_eq!(applied.malformed.len(), 1);
}

#[test]
fn an_event_that_was_seen_before_says_nothing() {
    let mut bench = Bench::new();
    let mut applied = Applied::default();
    for _ in 0..2 {
        let entry = object(1, 1, 5);
        let values = filed(&entry);
        let change = Change::Put(Decoded::Good(entry), values);
        bench.indexer.apply(change, &mut applied);
    }
    assert_eq!(applied.events.len(), 1);
}
