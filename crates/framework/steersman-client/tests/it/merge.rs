//! Merges: the difference of two objects, with and without their version.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::PartialObjectMeta;
use steersman_apiserver::faults::Verb;
use steersman_cache::{ByObject, CacheOptions, Transform};
use steersman_client::{ClientOptions, Error, OptimisticLock};

use crate::world::{World, config, key, set, until};

#[tokio::test(start_paused = true)]
async fn a_merge_is_one_request_with_the_version_if_locked() {
    let world = World::new();
    let client = &world.client;
    let before = client.create(&config("a")).await.unwrap();
    assert!(!client.merge(&before, &before).await.unwrap().is_changed());
    assert_eq!(world.count(&[Verb::Patch]), 0, "no difference, no request");

    let mut after = before.clone();
    set(&mut after, "k", "1");
    after.metadata.managed_fields = None;
    assert!(client.merge(&before, &after).await.unwrap().is_changed());
    // The object has changed meanwhile, which a merge of map entries ignores and a lock detects.
    let mut other = before.clone();
    set(&mut other, "l", "2");
    let merged = client.merge(&before, &other).await.unwrap().into_object();
    assert_eq!(merged.data.as_ref().unwrap().len(), 2);
    let error = client
        .lock(OptimisticLock::Always)
        .merge(&before, &other)
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(
        world.count(&[Verb::Patch]),
        3,
        "a conflict is not tried again"
    );
    assert_eq!(world.count(&[Verb::Get]), 0);

    let mut renamed = before.clone();
    renamed.metadata.name = Some("b".to_owned());
    let error = client.merge(&before, &renamed).await.unwrap_err();
    assert!(matches!(error, Error::Renamed { .. }), "{error}");
}

/// CLIENT-3
#[tokio::test(start_paused = true)]
async fn a_merge_into_a_replaced_object_is_refused() {
    let world = World::new();
    let before = world.client.create(&config("a")).await.unwrap();
    world.client.delete(&before).await.unwrap();
    world.client.create(&config("a")).await.unwrap();
    let mut after = before.clone();
    set(&mut after, "k", "1");
    let error = world.client.merge(&before, &after).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
}

/// CLIENT-6: the compiler ensures that a part neither replaces nor creates an object (`WholeObject`).
#[tokio::test(start_paused = true)]
async fn metadata_alone_is_changed_by_difference() {
    let world = World::new();
    let mut full = config("a");
    set(&mut full, "k", "1");
    world.client.create(&full).await.unwrap();
    let meta: Arc<PartialObjectMeta<ConfigMap>> =
        Arc::new(world.client.live().get(&key("a")).await.unwrap());
    let label = |meta: &mut PartialObjectMeta<ConfigMap>| {
        let labels = meta.metadata.labels.get_or_insert_default();
        labels.insert("l".to_owned(), "1".to_owned());
    };
    world.client.modify(&*meta, label).await.unwrap();
    let now: ConfigMap = world.client.live().get(&key("a")).await.unwrap();
    assert_eq!(now.data.unwrap()["k"], "1");
    assert_eq!(now.metadata.labels.unwrap()["l"], "1");
}

/// CLIENT-6
#[tokio::test(start_paused = true)]
async fn a_transformed_kind_can_be_merged_but_not_updated() {
    let drop_data = Transform::typed("drop data", |config: &mut ConfigMap| {
        config.data = None;
        Ok::<_, Infallible>(())
    });
    let options = CacheOptions::new().by_object::<ConfigMap>(ByObject::new().transform(drop_data));
    let world = World::with(options, ClientOptions::new());
    let mut events = world.cached::<ConfigMap>().await;
    let mut full = config("a");
    set(&mut full, "k", "1");
    world.client.create(&full).await.unwrap();
    let cached = until(&mut events, &key("a"), |_| true).await;
    assert_eq!(cached.data, None);
    let error = world.client.update(&*cached).await.unwrap_err();
    assert!(
        matches!(&error, Error::Transformed { transform, .. } if transform == "drop data"),
        "{error}"
    );
    assert_eq!(world.count(&[Verb::Update]), 0);
    let label = |config: &mut ConfigMap| {
        let labels = config.metadata.labels.get_or_insert_default();
        labels.insert("l".to_owned(), "1".to_owned());
    };
    let changed = world.client.modify(&*cached, label).await.unwrap();
    assert_eq!(changed.object().data.as_ref().unwrap()["k"], "1");
}
