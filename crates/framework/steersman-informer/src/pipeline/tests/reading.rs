//! Reads during decoding on another thread, and types that decode the same JSON only sometimes.

use std::sync::atomic::AtomicBool;

use kube_core::object::{NotUsed, Object};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::*;

/// A sender that signals the begin of decoding, and a receiver that waits for its permitted end.
type Gate = (mpsc::Sender<()>, mpsc::Receiver<()>);

static GATES: [Mutex<Option<Gate>>; 2] = [Mutex::new(None), Mutex::new(None)];
static IS_FICKLE: AtomicBool = AtomicBool::new(false);

/// Decodes only from `true`, and waits for its gate.
#[derive(Clone, Debug, Serialize)]
struct Slow<const GATE: usize> {
    was_let_in: bool,
}

impl<'de, const GATE: usize> Deserialize<'de> for Slow<GATE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Strict::deserialize(deserializer)?;
        let gate = GATES[GATE].lock().take();
        let was_let_in = gate.is_none_or(|(begins, may_end)| {
            begins.send(()).unwrap();
            // The timeout ends the wait only if the test fails.
            may_end.recv_timeout(Duration::from_secs(10)).is_ok()
        });
        Ok(Self { was_let_in })
    }
}

/// Decodes only from `true`.
#[derive(Clone, Debug, Serialize)]
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Lets the writer interfere, if it is not blocked.
        std::thread::yield_now();
        match bool::deserialize(deserializer)? {
            true => Ok(Self),
            false => Err(D::Error::custom("it is false")),
        }
    }
}

/// Does not decode `true` while `IS_FICKLE` is set.
#[derive(Clone, Debug, Serialize)]
struct Fickle;

impl<'de> Deserialize<'de> for Fickle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? && IS_FICKLE.load(Ordering::Relaxed) {
            return Err(D::Error::custom("not this time"));
        }
        Ok(Self)
    }
}

fn running(budget: Budget) -> Arc<Core> {
    let core = Core::new(Kind::of::<Map>(), InformerOptions::new().budget(budget));
    core.start();
    Arc::new(core)
}

/// Returns the object of this number as the reflector gets it.
fn handed_on(core: &Arc<Core>, number: u64, version: u64, spec: bool) -> Arrived {
    let metadata = format!(r#""name":"m{number}","uid":"u{number}","resourceVersion":"{version}""#);
    let json = format!(r#"{{"metadata":{{{metadata}}},"data":{{"v":"v"}},"spec":{spec}}}"#);
    let object = RawObject::from_json(json.into_bytes()).unwrap();
    ingested_by(core, object, true)
}

fn list_of(core: &Arc<Core>, specs: &[bool]) {
    let items = (1..).zip(specs);
    let items = items.map(|(number, spec)| handed_on(core, number, 1, *spec));
    core.apply(vec![Delta::Replaced {
        version: ResourceVersion::new("1"),
        items: items.collect(),
        projection: Projection::EveryField,
        relists: 0,
        slots: ListSlots::ALL,
    }]);
}

// STORE-7
#[test]
fn store_7_reads_and_writes_do_not_wait_for_decoding() {
    type SlowMap = Object<Slow<0>, NotUsed>;
    let core = running(Budget::default());
    let (maps, slow) = (core.view::<Map>(), core.view::<SlowMap>());
    list_of(&core, &[true, true]);
    let (one, other) = (
        ObjectKey::cluster_scoped("m1"),
        ObjectKey::cluster_scoped("m2"),
    );
    let stored = core.shared.indexer.read().get(&one).unwrap().clone();
    stored.raw_body().evict();
    let (begins, begun) = mpsc::channel();
    let (opens, open) = mpsc::channel();
    *GATES[0].lock() = Some((begins, open));
    let (maps, slow) = (core.store::<Map>(&maps), core.store::<SlowMap>(&slow));
    std::thread::scope(|threads| {
        let read = threads.spawn(|| slow.get(&one));
        begun.recv().unwrap();
        // Each of the next calls takes the body's lock for a moment, which must not wait for the reader that decodes.
        assert!(maps.get(&one).is_some());
        stored.raw_body().evict();
        stored.raw_body().repack();
        assert!(maps.get(&one).is_some() && maps.get(&other).is_some());
        core.apply(vec![Delta::Put(handed_on(&core, 1, 2, true))]);
        assert_eq!(maps.entry(&one).unwrap().version().as_str(), "2");
        opens.send(()).unwrap();
        let read = read.join().unwrap().unwrap();
        assert!(read.spec.was_let_in, "a reader or the writer was blocked");
    });
}

// VIEW-2, VIEW-7
#[test]
fn view_7_a_new_view_blocks_neither_readers_nor_the_writer_and_misses_nothing() {
    type SlowMap = Object<Slow<1>, NotUsed>;
    let core = running(Budget::default());
    let maps = core.view::<Map>();
    list_of(&core, &[true, true, true, false, false]);
    let key = |number: u64| ObjectKey::cluster_scoped(format!("m{number}"));
    let (begins, begun) = mpsc::channel();
    let (opens, open) = mpsc::channel();
    *GATES[1].lock() = Some((begins, open));
    let maps = core.store::<Map>(&maps);
    let handle = std::thread::scope(|threads| {
        let look = threads.spawn(|| core.view::<SlowMap>());
        begun.recv().unwrap();
        assert!(maps.get(&key(1)).is_some());
        core.apply(vec![
            Delta::Put(handed_on(&core, 2, 2, false)),
            Delta::Removed(handed_on(&core, 3, 3, true)),
            Delta::Put(handed_on(&core, 4, 4, true)),
            Delta::Removed(handed_on(&core, 5, 5, false)),
            Delta::Put(handed_on(&core, 6, 6, true)),
        ]);
        assert_eq!(maps.entry(&key(2)).unwrap().version().as_str(), "2");
        // Existing views are readable while the new one is being created.
        let again = core.view::<Map>();
        assert_eq!(core.subscribers(), 0);
        drop(again);
        opens.send(()).unwrap();
        look.join().unwrap()
    });
    let slow = core.store::<SlowMap>(&handle);
    let first = slow.get(&key(1)).unwrap();
    assert!(first.spec.was_let_in, "a reader or the writer was blocked");
    let seen: Vec<String> = slow
        .entries(None)
        .iter()
        .map(|entry| format!("{entry:?}"))
        .collect();
    assert_eq!(seen, ["m1@1", "m4@4", "m6@6"]);
    let odd = slow.malformed();
    let odd: Vec<_> = odd
        .iter()
        .map(|odd| (&odd.key, odd.version.as_str()))
        .collect();
    assert_eq!(odd, [(&key(2), "2")]);
    let mut subscription = core.subscribe::<SlowMap>(&handle);
    core.apply(vec![Delta::Put(handed_on(&core, 1, 7, true))]);
    let view_effects = waiting(&mut subscription);
    assert_eq!(view_effects, ["m1@1", "m4@4", "m6@6", "synced", "m1@7"]);
}

// VIEW-7
#[test]
fn view_7_a_new_index_does_not_block_the_writer_and_misses_nothing() {
    let core = running(Budget::default());
    let handle = core.view::<Map>();
    list_of(&core, &[true, true, true]);
    let (begins, begun) = mpsc::channel();
    let (opens, open) = mpsc::channel::<()>();
    let open = Mutex::new(open);
    let slow = move |map: &Map| {
        let mut values = value(map);
        if map.metadata.name.as_deref() == Some("m1") {
            begins.send(()).unwrap();
            // The timeout ends the wait only if the test fails.
            let opened = open.lock().recv_timeout(Duration::from_secs(10));
            values.push(format!("{opened:?}"));
        }
        values
    };
    std::thread::scope(|threads| {
        threads.spawn(|| core.add_index(&handle, index("slow", slow)).unwrap());
        begun.recv().unwrap();
        core.apply(vec![
            Delta::Put(handed_on(&core, 2, 2, true)),
            Delta::Removed(handed_on(&core, 3, 3, true)),
            Delta::Put(handed_on(&core, 4, 4, true)),
        ]);
        opens.send(()).unwrap();
    });
    let indexer = core.shared.indexer.read();
    let index = indexer.view(handle.id).unwrap().index("slow").unwrap();
    let having = |value: &str| -> Vec<String> {
        let entries = index.get(value).into_iter().flat_map(|found| found.iter());
        entries.map(|entry| format!("{entry:?}")).collect()
    };
    assert_eq!(
        having("Ok(())"),
        ["m1@1"],
        "a reader or the writer was blocked"
    );
    assert_eq!(having("v"), ["m1@1", "m2@2", "m4@4"]);
}

// VIEW-2, VIEW-7
#[test]
fn view_7_a_view_created_during_writes_misses_none() {
    type StrictMap = Object<Strict, NotUsed>;
    let core = running(Budget::default());
    list_of(&core, &[true; 100]);
    let write = |version: u64| {
        let number = 1 + version % 100;
        let arrived = handed_on(&core, number, version + 1, !version.is_multiple_of(3));
        core.apply(vec![match version % 7 {
            0 => Delta::Removed(arrived),
            _ => Delta::Put(arrived),
        }]);
    };
    let mut view_creation = 0;
    while_writing(2000, write, || {
        if view_creation < 50 {
            // The last view was dropped, so each round creates a new one.
            let handle = core.view::<StrictMap>();
            let indexer = core.shared.indexer.read();
            let view = indexer.view(handle.id).unwrap();
            let mut aside = 0;
            for entry in indexer.entries(None) {
                let version: u64 = entry.version().as_str().parse().unwrap();
                let is_good = version == 1 || !(version - 1).is_multiple_of(3);
                let malformed = view.malformed_at(entry.key());
                let known = malformed.map(|malformed| malformed.version.as_str());
                let expected = (!is_good).then(|| entry.version().as_str());
                assert_eq!(known, expected, "{entry:?}");
                aside += usize::from(!is_good);
            }
            assert_eq!(view.malformed().count(), aside);
            view_creation += 1;
        }
    });
    assert!(view_creation > 0);
}

// CACHE-4, PACK-1
#[test]
fn cache_4_a_list_reports_an_object_that_no_longer_decodes() {
    type FickleMap = Object<Fickle, NotUsed>;
    let core = running(Budget::bytes(0));
    let handle = core.view::<FickleMap>();
    list_of(&core, &[false, true, false]);
    let store = core.store::<FickleMap>(&handle);
    let list = || {
        let found = store.list_matching(&ListOptions::new()).unwrap();
        let unreadable = found.unreadable.map(|malformed| malformed.key);
        (found.objects.len(), unreadable)
    };
    assert_eq!(list(), (3, None));
    IS_FICKLE.store(true, Ordering::Relaxed);
    let odd = ObjectKey::cluster_scoped("m2");
    assert_eq!(list(), (2, Some(odd.clone())));
    // The decode error is cached from now on.
    assert!(store.get(&odd).is_none());
    assert_eq!(list(), (2, Some(odd)));
}
