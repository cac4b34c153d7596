//! Reads while somebody decodes, and of what decodes at one time and not at another.

use std::sync::atomic::AtomicBool;

use kube_core::object::{NotUsed, Object};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use super::*;
use crate::reflector::intake::{Change, Ingest as _};
use crate::store::Query;

/// Who waits at the gate: is told that decoding has begun, and says when it may end.
type Gate = (mpsc::Sender<()>, mpsc::Receiver<()>);

static GATE: Mutex<Option<Gate>> = Mutex::new(None);
static IS_FICKLE: AtomicBool = AtomicBool::new(false);

/// Decodes for as long as the gate is closed.
#[derive(Clone, Debug, Serialize)]
struct Slow {
    was_let_in: bool,
}

impl<'de> Deserialize<'de> for Slow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        let gate = GATE.lock().take();
        let was_let_in = gate.is_none_or(|(begins, may_end)| {
            begins.send(()).unwrap();
            // Waits no longer than this only where others wait for it: a test that fails does not hang.
            may_end.recv_timeout(Duration::from_secs(10)).is_ok()
        });
        Ok(Self { was_let_in })
    }
}

/// Decodes at one time, and not at another where it is true.
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

/// The object of this number, as the reflector hands it on.
fn handed_on(core: &Arc<Core>, number: u64, version: u64, spec: bool) -> Arrived {
    let metadata = format!(r#""name":"m{number}","uid":"u{number}","resourceVersion":"{version}""#);
    let json = format!(r#"{{"metadata":{{{metadata}}},"data":{{"v":"v"}},"spec":{spec}}}"#);
    let object = RawObject::from_json(json.into_bytes()).unwrap();
    let arrived = core.ingest(Change::Added, Decoded::Good(object), Extent::Whole);
    core.pack(&arrived);
    arrived
}

fn list_of(core: &Arc<Core>, specs: &[bool]) {
    let items = (1..).zip(specs);
    let items = items.map(|(number, spec)| handed_on(core, number, 1, *spec));
    core.apply(vec![Delta::Replaced {
        version: ResourceVersion::new("1"),
        items: items.collect(),
        extent: Extent::Whole,
    }]);
}

// STORE-7
#[test]
fn store_7_who_reads_or_writes_does_not_wait_for_a_type_that_decodes() {
    type SlowMap = Object<Slow, NotUsed>;
    let core = running(Budget::default());
    let (maps, slow) = (core.view::<Map>(), core.view::<SlowMap>());
    list_of(&core, &[true, true]);
    let (one, other) = (ObjectKey::cluster("m1"), ObjectKey::cluster("m2"));
    let stored = core.shared.indexer.read().get(&one).unwrap().clone();
    stored.raw_body().evict();
    let (begins, begun) = mpsc::channel();
    let (opens, open) = mpsc::channel();
    *GATE.lock() = Some((begins, open));
    let (maps, slow) = (core.store::<Map>(&maps), core.store::<SlowMap>(&slow));
    std::thread::scope(|threads| {
        let read = threads.spawn(|| slow.get(&one));
        begun.recv().unwrap();
        // Each of these has the body to itself for a moment.
        assert!(maps.get(&one).is_some());
        stored.raw_body().evict();
        stored.raw_body().repack();
        assert!(maps.get(&one).is_some() && maps.get(&other).is_some());
        core.apply(vec![Delta::Put(handed_on(&core, 1, 2, true))]);
        assert_eq!(maps.entry(&one).unwrap().version().as_str(), "2");
        opens.send(()).unwrap();
        let read = read.join().unwrap().unwrap();
        assert!(read.spec.was_let_in, "somebody waited for it");
    });
}

// CACHE-4, PACK-1
#[test]
fn cache_4_a_list_tells_of_an_object_that_decodes_no_more() {
    type FickleMap = Object<Fickle, NotUsed>;
    let core = running(Budget::bytes(0));
    let held = core.view::<FickleMap>();
    list_of(&core, &[false, true, false]);
    let store = core.store::<FickleMap>(&held);
    let list = || {
        let found = store.objects(&Query::new()).unwrap();
        let unreadable = found.unreadable.map(|malformed| malformed.key);
        (found.objects.len(), unreadable)
    };
    assert_eq!(list(), (3, None));
    IS_FICKLE.store(true, Ordering::Relaxed);
    let odd = ObjectKey::cluster("m2");
    assert_eq!(list(), (2, Some(odd.clone())));
    // What is wrong with it is at hand from now on.
    assert!(store.get(&odd).is_none());
    assert_eq!(list(), (2, Some(odd)));
}
