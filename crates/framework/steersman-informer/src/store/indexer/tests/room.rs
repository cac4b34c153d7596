//! The memory of an indexer per object.

use steersman_api::{Decoded, RawObject};
use steersman_object::{ResourceVersion, SlotSet};

use crate::body::Body;
use crate::body::BodyContext;
use crate::entry::{Interners, RawEntry};
use crate::event::Origin;
use crate::store::Relist;
use crate::store::indexer::{Indexer, StoreChange};
use crate::view_results::ViewResults;
use steersman_api::Projection;
use steersman_pack::Budget;

/// Returns the JSON of a Pod without a spec. Every ten Pods have one ReplicaSet.
fn pod(number: usize) -> RawObject {
    let set = number / 10;
    let uid = |kind: u8, number: usize| format!("b6589fc6-000{kind}-4000-a000-{number:012x}");
    let pod = serde_json::json!({"metadata": {
        "namespace": format!("team-{:02}", set % 50),
        "name": format!("svc-{set:03}-b6589fc6ab-{number:05}"),
        "uid": uid(0, number),
        "resourceVersion": (1_000_000_000 + number).to_string(),
        "generation": 3,
        "finalizers": ["example.com/tidy"],
        "labels": {"app.kubernetes.io/name": format!("svc-{set:03}"), "tier": "front"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
            "name": format!("svc-{set:03}-b6589fc6ab"), "uid": uid(1, set)}],
    }});
    RawObject::from_json(pod.to_string().into_bytes()).unwrap()
}

/// Returns the bytes that `put` allocates for each Pod, without the bodies.
fn bytes_each(put: impl Fn(&mut Indexer, Vec<RawEntry>)) -> usize {
    const PODS: usize = 20_000;
    let pods: Vec<RawObject> = (0..PODS).map(pod).collect();
    let json: usize = pods.iter().map(|pod| pod.json().len()).sum();
    let (mut indexer, interners) = (Indexer::default(), Interners::default());
    let context = BodyContext::alone(Budget::default());
    let counted = allocation_counter::measure(|| {
        let ingest = |pod: &RawObject| {
            RawEntry::ingest(pod.clone(), Projection::Whole, &context, None, &interners)
        };
        let entries = pods.iter().map(ingest).collect();
        put(&mut indexer, entries);
    });
    assert_eq!(indexer.len(), PODS);
    let all = usize::try_from(counted.bytes_current).unwrap();
    // The allocation of `Arc<Box<[u8]>>`, which shares the fresh JSON.
    let shared = size_of::<Box<[u8]>>() + 2 * size_of::<usize>();
    (all - json) / PODS - size_of::<Body>() - shared
}

// STORE-8, POOL-1
#[test]
fn store_8_an_object_takes_few_bytes_besides_its_body() {
    let listed = bytes_each(|indexer, entries| {
        let objects = entries.len();
        let items = entries.into_iter();
        let items = items.map(|entry| (Decoded::Good(entry), ViewResults::default()));
        let relist = Relist {
            objects,
            version: ResourceVersion::new("7"),
            origin: Origin::Initial,
            projection: Projection::Whole,
            loaded: SlotSet::ALL,
        };
        *indexer = indexer.replaced(items, relist, |_| true).0;
    });
    let one_by_one = bytes_each(|indexer, entries| {
        for entry in entries {
            let mut effects = indexer.unchanged();
            indexer.apply(
                StoreChange::Put(Decoded::Good(entry), ViewResults::default()),
                &mut effects,
            );
        }
    });
    // Ten Pods share a value, so it counts a tenth for each.
    assert!(
        listed <= 200 && one_by_one <= 200,
        "{listed} and {one_by_one} bytes"
    );
    // The size of the lock, the budget slot, and the pointers to bytes and forms.
    assert!(size_of::<Body>() <= 104);
}
