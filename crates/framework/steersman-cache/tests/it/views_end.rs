//! The lifetime of views, and changes during the creation of a view.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use kube_core::DynamicObject;
use kube_core::object::{NotUsed, Object};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use steersman_cache::{ByObject, CacheMetrics, CacheOptions, ListOptions};
use steersman_object::Kind;

use crate::world::{Website, World, event_of, initial, key};

/// Returns the gauge of objects that do not decode as the type of some view.
fn malformed(registry: &prometheus::Registry) -> f64 {
    let families = registry.gather();
    let mut families = families.iter();
    let family = families.find(|f| f.name() == "steersman_informer_malformed_objects");
    family.map_or(0.0, |family| family.get_metric()[0].get_gauge().get_value())
}

#[tokio::test(start_paused = true)]
async fn a_view_of_an_undeclared_type_ends_after_its_last_read() {
    let registry = prometheus::Registry::new();
    let metrics = CacheMetrics::register(&registry).unwrap();
    let mut world = World::new(CacheOptions::new().metrics(metrics));
    world.install_loose_websites();
    world.website("odd", &json!(7));
    let kind = Kind::of::<Website>();
    let anything = world.cache.of::<DynamicObject>(&kind);
    let informers = anything.informers().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let mut seen = informers[0].subscribe();
    initial(&mut seen).await;
    let mut happens = async |name: &str| {
        world.website(name, &json!("image"));
        event_of(&mut seen, &key("a", name)).await;
        malformed(&registry)
    };
    let odd = world.cache.get::<Website>(&key("a", "odd")).await;
    assert!(odd.unwrap_err().is_malformed());
    assert_eq!(happens("one").await, 1.0);
    tokio::time::sleep(Duration::from_secs(660)).await;
    assert_eq!(happens("two").await, 0.0);
    // A new read creates the dropped view again; the declared view still exists.
    assert!(world.cache.get::<Website>(&key("a", "two")).await.is_ok());
    assert_eq!(happens("three").await, 1.0);
    world.cache.informer::<Website>().unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(happens("four").await, 1.0);
    world.stop().await.unwrap();
}

/// CACHE-15
#[tokio::test(start_paused = true)]
async fn cache_15_a_view_of_a_declared_type_never_ends() {
    let kind = Kind::of::<Website>();
    let settings = ByObject::new;
    for (number, (options, is_kept)) in [
        (CacheOptions::new().by_object::<Website>(settings()), true),
        // Later options of the kind neither declare another type nor remove a declared type.
        (
            CacheOptions::new()
                .by_object::<Website>(settings())
                .by_kind(&kind, settings()),
            true,
        ),
        (CacheOptions::new().by_kind(&kind, settings()), false),
    ]
    .into_iter()
    .enumerate()
    {
        let registry = prometheus::Registry::new();
        let metrics = CacheMetrics::register(&registry).unwrap();
        let mut world = World::new(options.metrics(metrics));
        world.install_loose_websites();
        world.website("odd", &json!(7));
        world.start();
        let odd = world.cache.get::<Website>(&key("a", "odd")).await;
        assert!(odd.unwrap_err().is_malformed());
        let anything = world.cache.of::<DynamicObject>(&kind);
        let mut seen = anything.informers().unwrap()[0].subscribe();
        initial(&mut seen).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        world.website("one", &json!("image"));
        event_of(&mut seen, &key("a", "one")).await;
        // Malformed objects are counted only while a view of the type exists.
        let looked_at = malformed(&registry) > 0.0;
        assert_eq!(looked_at, is_kept, "options number {number}");
        world.stop().await.unwrap();
    }
}

/// A sender that signals the start of a decoding, and a receiver that waits for its permitted end.
type DecodingSignals = (mpsc::Sender<()>, mpsc::Receiver<()>);

static DECODING: Mutex<Option<DecodingSignals>> = Mutex::new(None);

/// Data with a first decoding that blocks. No other test reads as this type.
#[derive(Clone, Debug, Serialize)]
struct BlockingSpec {
    was_released: bool,
}

impl<'de> Deserialize<'de> for BlockingSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        let signals = DECODING.lock().take();
        let was_released = signals.is_none_or(|(begins, may_end)| {
            begins.send(()).unwrap();
            // The limit ends a failing test, in which other tasks wait for this one.
            may_end.recv_timeout(Duration::from_secs(10)).is_ok()
        });
        Ok(Self { was_released })
    }
}

/// VIEW-7
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn view_7_changes_arrive_during_the_creation_of_a_view() {
    type BlockingWebsite = Object<BlockingSpec, NotUsed>;
    let mut world = World::new(CacheOptions::new());
    world.install_loose_websites();
    world.website("first", &json!("image"));
    world.website("second", &json!("image"));
    let kind = Kind::of::<Website>();
    let typed = world.cache.informers::<Website>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    let mut seen = typed[0].subscribe();
    initial(&mut seen).await;
    let (begins, begun) = mpsc::channel();
    let (opens, open) = mpsc::channel();
    *DECODING.lock() = Some((begins, open));
    let reads = world.cache.of::<BlockingWebsite>(&kind);
    let look = tokio::spawn({
        let reads = reads.clone();
        async move { reads.list(&ListOptions::new()).await }
    });
    tokio::task::spawn_blocking(move || begun.recv())
        .await
        .unwrap()
        .unwrap();
    world.website("third", &json!("image"));
    event_of(&mut seen, &key("a", "third")).await;
    assert!(world.cache.get::<Website>(&key("a", "third")).await.is_ok());
    opens.send(()).unwrap();
    let listed = look.await.unwrap().unwrap().items;
    assert_eq!(listed.len(), 3, "{listed:?}");
    let was_released = |website: &Arc<BlockingWebsite>| website.spec.was_released;
    assert!(
        listed.iter().all(was_released),
        "a change waited for the decoding"
    );
    world.stop().await.unwrap();
}
