//! Several types over one informer, and the objects that each type sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{DynamicObject, PartialObjectMeta};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use steersman_api::{Decoded, RawObject, WatchEvent};
use steersman_informer::{Budget, Delivery, Informer, InformerOptions, Store, Subscription};
use steersman_object::{Kind, Object, ObjectKey};

use super::fake::*;
use super::world::{self, MAPS, World, put};

type Metadata = PartialObjectMeta<ConfigMap>;

/// Returns the next delivery as `+`, `~` or `-` with name and version, or `synced`.
async fn next_line<K: Object>(subscription: &mut Subscription<K>) -> String {
    world::next(subscription).await
}

fn waiting<K>(subscription: &Subscription<K>) -> usize {
    subscription.waiting()
}

// VIEW-1
#[tokio::test(start_paused = true)]
async fn view_1_an_object_that_one_type_cannot_decode_is_malformed_for_it_alone() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), odd("o", 2), good("b", 3)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let typed = running.informer.store();
    let anything = running.informer.view::<DynamicObject>();
    let mut seen = running.informer.subscribe();
    let mut all = anything.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "*b@3", "synced"]);
    assert_eq!(world::take(&mut all, 4).await, ["+a", "+o", "+b", "synced"]);
    assert_eq!((typed.len(), anything.store().len()), (2, 3));
    assert!(typed.get(&key("o")).is_none());
    let aside = typed.malformed_at(&key("o")).unwrap();
    assert!(aside.error.starts_with("data: invalid type"), "{aside:?}");
    assert!(anything.store().malformed().is_empty());

    // The last good version stays visible, and the view of the other type gets the update.
    wire.unbounded_send(Ok(WatchEvent::Modified(odd("a", 11))))
        .unwrap();
    assert_eq!(next_line(&mut all).await, "~a");
    assert_eq!(typed.entry(&key("a")).unwrap().version().as_str(), "1");
    assert_eq!(
        typed.malformed_at(&key("a")).unwrap().version.as_str(),
        "11"
    );
    assert_eq!(waiting(&seen), 0);

    // The object heals: it appears for the type that never saw it, and is updated for the type that did.
    wire.unbounded_send(modified("o", 12)).unwrap();
    wire.unbounded_send(modified("a", 13)).unwrap();
    assert_eq!(take(&mut seen, 2).await, ["+o@12", "~a@1>13"]);
    assert_eq!(world::take(&mut all, 2).await, ["~o", "~a"]);
    assert!(typed.malformed().is_empty());

    // Its delete is delivered only to the type that saw a version of it.
    for event in [
        WatchEvent::Modified(odd("a", 14)),
        WatchEvent::Added(odd("p", 15)),
        WatchEvent::Deleted(odd("p", 16)),
        WatchEvent::Deleted(odd("a", 17)),
        WatchEvent::Deleted(odd("b", 18)),
    ] {
        wire.unbounded_send(Ok(event)).unwrap();
    }
    running.applied(18).await;
    assert_eq!(take(&mut seen, 2).await, ["-a@13?", "-b@3?"]);
    assert_eq!(waiting(&seen), 0);
    assert_eq!(
        world::take(&mut all, 5).await,
        ["~a", "+p", "-p", "-a", "-b"]
    );
    assert!(typed.malformed().is_empty());
}

// VIEW-2
#[tokio::test(start_paused = true)]
async fn view_2_a_new_view_contains_all_objects_before_it_is_used() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), odd("o", 2)]);
    let wire = fake.watch();
    let informer = Informer::<DynamicObject>::new(Kind::of::<ConfigMap>(), listing());
    let running = tokio::spawn(informer.run(fake.clone(), Default::default()));
    informer.wait_for_sync().await.unwrap();
    assert_eq!(informer.store().len(), 2);
    let typed = informer.view::<ConfigMap>();
    let store = typed.store();
    assert!(typed.has_synced());
    assert_eq!((store.len(), store.malformed().len()), (1, 1));
    wire.unbounded_send(added("b", 11)).unwrap();
    let mut seen = typed.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "synced", "+b@11"]);
    // The same type has the same view, and shares the decoded objects.
    let again = typed.view::<ConfigMap>().store();
    let read = |store: &Store<ConfigMap>| store.get(&key("a")).unwrap();
    assert!(Arc::ptr_eq(&read(&store), &read(&again)));
    running.abort();
}

/// The number of times a body was decoded as a `Counted`.
static DECODED: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Witness;

impl<'de> Deserialize<'de> for Witness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer)?;
        DECODED.fetch_add(1, Ordering::Relaxed);
        Ok(Self)
    }
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "count.example.com",
    version = "v1",
    kind = "Counted",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
struct CountedSpec {
    witness: Witness,
}

fn counted(name: &str, version: u64) -> Decoded<RawObject> {
    let object = serde_json::json!({
        "apiVersion": "count.example.com/v1", "kind": "Counted",
        "metadata": map(name, version).metadata, "spec": {"witness": 1},
    });
    Decoded::Good(RawObject::from_json(object.to_string().into_bytes()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_object_is_decoded_once_for_each_type_with_a_view() {
    let fake = Fake::new();
    fake.page("10", [counted("a", 1)]);
    let wire = fake.watch();
    let kind = Kind::of::<Counted>();
    let options = listing().budget(Budget::unlimited());
    let informer = Informer::<DynamicObject>::new(kind, options);
    let running = tokio::spawn(informer.run(fake.clone(), Default::default()));
    informer.wait_for_sync().await.unwrap();
    assert_eq!(DECODED.load(Ordering::Relaxed), 0);
    let typed = informer.view::<Counted>();
    let applied = async |version: &str| {
        while informer.store().version().as_str() != version {
            tokio::task::yield_now().await;
        }
    };
    let change = async |version: u64| {
        wire.unbounded_send(Ok(WatchEvent::Modified(counted("a", version))))
            .unwrap();
        applied(&version.to_string()).await;
    };
    // The first objects of a type are decoded a second time, to measure their size.
    for version in 11..20 {
        change(version).await;
    }
    let before = DECODED.load(Ordering::Relaxed);
    for version in 20..30 {
        change(version).await;
        for _ in 0..3 {
            assert!(typed.store().get(&key("a")).is_some());
        }
    }
    assert_eq!(DECODED.load(Ordering::Relaxed), before + 10);
    drop(typed);
    change(30).await;
    assert_eq!(DECODED.load(Ordering::Relaxed), before + 10);
    running.abort();
}

// VIEW-3
#[tokio::test(start_paused = true)]
async fn view_3_only_metadata_is_requested_until_a_view_needs_whole_objects() {
    for watch_list in [true, false] {
        let server = world::server();
        put(&server, "a", "1");
        put(&server, "b", "1");
        let options = InformerOptions::new().watch_list(watch_list).seed(3);
        let world = World::<Metadata>::start(&server, Kind::of::<ConfigMap>(), options);
        let metadata = world.informer.clone();
        metadata.wait_for_sync().await.unwrap();
        assert!(metadata.untyped().is_metadata_only());
        let mut seen = metadata.subscribe();
        assert_eq!(world::take(&mut seen, 3).await, ["+a", "+b", "synced"]);
        put(&server, "c", "1");
        assert_eq!(next_line(&mut seen).await, "+c");
        let key = ObjectKey::namespaced("default", "a");
        let before = metadata.store().get(&key).unwrap();

        let whole = metadata.view::<ConfigMap>();
        assert!(!metadata.untyped().is_metadata_only());
        let mut bodies = whole.subscribe();
        // Metadata stays readable and synced, while whole objects are not yet there and do not count as synced.
        assert!(metadata.has_synced() && metadata.state().is_synced());
        assert!(!whole.has_synced() && !whole.state().is_synced());
        assert!(whole.store().is_empty() && whole.store().get(&key).is_none());
        assert_eq!(waiting(&bodies), 0);
        put(&server, "d", "1");
        server.delete(MAPS, "default", "b").unwrap();
        whole.wait_for_sync().await.unwrap();
        assert_eq!(
            world::take(&mut bodies, 4).await,
            ["+a", "+c", "+d", "synced"]
        );
        let map = whole.store().get(&key).unwrap();
        assert_eq!(map.data.as_ref().unwrap()["v"], "1");
        // Readers of metadata got the events since then, and nothing else.
        let mut meanwhile = world::take(&mut seen, 2).await;
        meanwhile.sort();
        assert!(
            meanwhile[0] == "+d" && meanwhile[1].starts_with("-b"),
            "{meanwhile:?}"
        );
        assert_eq!(waiting(&seen), 0);
        assert!(Arc::ptr_eq(&before, &metadata.store().get(&key).unwrap()));
        put(&server, "a", "2");
        assert_eq!(next_line(&mut bodies).await, "~a");
        assert_eq!(next_line(&mut seen).await, "~a");
        assert_eq!(
            whole.store().get(&key).unwrap().data.as_ref().unwrap()["v"],
            "2"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_whole_objects_made_first_gets_them_with_the_first_list() {
    let server = world::server();
    put(&server, "a", "1");
    let world = World::<Metadata>::start(&server, Kind::of::<ConfigMap>(), InformerOptions::new());
    let whole = world.informer.view::<ConfigMap>();
    whole.wait_for_sync().await.unwrap();
    let store = whole.store();
    assert!(store.list()[0].data.is_some());
    assert_eq!(server.requests().count(|r| r.is_for(MAPS)), 1);
    match whole.subscribe().next().await {
        Some(Delivery::Event(event)) => assert!(event.is_create()),
        other => panic!("{other:?}"),
    }
}
