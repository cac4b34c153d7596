//! Waits and watches of programs outside reconcilers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman::api::Patch;
use steersman::cache::{Delivery, Event};
use steersman::client::{Condition, Error, ObjectWatch};
use steersman::{LabelSelector, ListOptions};

use super::world::{LABEL, World, config_map, soon};

const LIMIT: Duration = Duration::from_secs(60);
const FINALIZER: &str = "steersman.example.com/held";

fn is_blue() -> impl Condition<ConfigMap> {
    let is_blue = |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.is_some_and(|data| data.get("sky").is_some_and(|sky| sky == "blue"))
    };
    is_blue.named("is blue")
}

impl World {
    async fn paint(&self, name: &str, sky: &str) {
        let patch = Patch::Merge(json!({"data": {"sky": sky}}));
        let painted = self
            .client
            .patch::<ConfigMap>(&self.key(name), &patch)
            .await;
        painted.unwrap();
    }
}

/// CLIENT-9
#[tokio::test]
async fn a_wait_ends_when_the_object_meets_the_condition() {
    let world = World::start().await;
    let name = world.key("sky");
    let waiting = world.client.await_condition(&name, is_blue(), LIMIT);
    let painting = async {
        let map = config_map(&world.namespace, "sky");
        world.client.create(&map).await.unwrap();
        world.paint("sky", "grey").await;
        world.paint("sky", "blue").await;
    };
    let found = tokio::join!(waiting, painting).0.unwrap().unwrap();
    assert!(is_blue().is_met(Some(&*found)));

    world.paint("sky", "grey").await;
    let short = Duration::from_secs(1);
    let vain = world.client.await_condition(&name, is_blue(), short).await;
    let error = vain.unwrap_err();
    assert!(matches!(error, Error::ConditionNotMet { .. }), "{error}");
    assert!(error.to_string().contains("is blue"), "{error}");
}

#[tokio::test]
async fn a_wait_for_a_deletion_ends_when_the_last_finalizer_is_removed() {
    let world = World::start().await;
    let mut held = config_map(&world.namespace, "held");
    held.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let held = world.client.create(&held).await.unwrap();
    world.client.delete(&held).await.unwrap();
    let short = Duration::from_secs(1);
    let error = world.client.wait_deleted(&held, short).await.unwrap_err();
    assert!(matches!(error, Error::ConditionNotMet { .. }), "{error}");

    let waiting = world.client.wait_deleted(&held, LIMIT);
    let releasing = async {
        let held: ConfigMap = world.client.live().get(&world.key("held")).await.unwrap();
        let released = world.client.remove_finalizer(&held, FINALIZER).await;
        released.map(drop).unwrap();
    };
    tokio::join!(waiting, releasing).0.unwrap();
    let (live, key) = (world.client.live(), world.key("held"));
    assert!(live.get_opt::<ConfigMap>(&key).await.unwrap().is_none());
}

/// Returns the next delivery of a watch in a word or two.
async fn next(watch: &mut ObjectWatch<ConfigMap>) -> String {
    match soon(watch.next()).await.unwrap().unwrap() {
        Delivery::Synced => "synced".to_owned(),
        Delivery::Event(event) => {
            let what = match &event {
                Event::Created { .. } => "created",
                Event::Updated { .. } => "updated",
                Event::Deleted { .. } => "deleted",
            };
            format!("{what} {}", event.key().name())
        }
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_delivers_the_present_objects_and_their_changes() {
    let world = World::start().await;
    let first = config_map(&world.namespace, "first");
    let first = world.client.create(&first).await.unwrap();
    let mut other = config_map(&world.namespace, "other");
    other.metadata.labels = None;
    world.client.create(&other).await.unwrap();
    let (label, value) = LABEL;
    let selected = ListOptions::new()
        .namespace(&*world.namespace)
        .labels(LabelSelector::label(label, value));
    let mut watch = world.client.watch::<ConfigMap>(&selected).unwrap();
    assert_eq!(next(&mut watch).await, "created first");
    assert_eq!(next(&mut watch).await, "synced");
    let second = config_map(&world.namespace, "second");
    world.client.create(&second).await.unwrap();
    assert_eq!(next(&mut watch).await, "created second");
    world.paint("second", "blue").await;
    assert_eq!(next(&mut watch).await, "updated second");
    world.client.delete(&first).await.unwrap();
    assert_eq!(next(&mut watch).await, "deleted first");
    assert!(watch.informer_failures().is_empty());
}
