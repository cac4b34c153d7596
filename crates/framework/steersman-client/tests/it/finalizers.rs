//! Finalizers that two reconcilers add at once are neither lost nor doubled.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::finalizer::{self, FinalizerStage};

use crate::world::{World, config, key};

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.com/theirs";

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn concurrent_additions_all_stay() {
    let world = World::new();
    let object = world.client.create(&config("a")).await.unwrap();
    let (client, names) = (&world.client, ["a.io/1", "a.io/2", OURS, THEIRS, OURS]);
    let [a, b, c, d, e] = names.map(|name| client.add_finalizer(&object, name));
    for result in <[_; 5]>::from(tokio::join!(a, b, c, d, e)) {
        let _ = result.unwrap();
    }
    let stored: ConfigMap = client.live().get(&key("a")).await.unwrap();
    let mut finalizers = stored.metadata.finalizers.unwrap();
    finalizers.sort();
    assert_eq!(finalizers, ["a.io/1", "a.io/2", OURS, THEIRS]);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_deleted_when_its_last_finalizer_is_removed() {
    let world = World::new();
    let object = world.client.create(&config("a")).await.unwrap();
    let object = world
        .client
        .add_finalizer(&object, OURS)
        .await
        .unwrap()
        .into_object();
    assert!(
        !world
            .client
            .add_finalizer(&*object, OURS)
            .await
            .unwrap()
            .is_changed()
    );
    world.client.delete(&*object).await.unwrap();
    let dying: ConfigMap = world.client.live().get(&key("a")).await.unwrap();
    assert_eq!(finalizer::stage(&dying, OURS), FinalizerStage::CleanUp);
    world.client.remove_finalizer(&dying, OURS).await.unwrap();
    assert!(world.server.get("configmaps", "default", "a").is_none());
    // A removal from an older state reports that the object is gone.
    let error = world
        .client
        .remove_finalizer(&dying, OURS)
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn an_object_that_is_being_deleted_gets_no_finalizer() {
    let world = World::new();
    let mut held = config("a");
    finalizer::add(&mut held, THEIRS);
    let before = world.client.create(&held).await.unwrap();
    world.client.delete(&before).await.unwrap();
    // A cache that is behind would return this state from before the deletion.
    let added = world
        .client
        .add_finalizers(&before, &["a.io/1", OURS])
        .await;
    let added = added.unwrap();
    assert!(!added.is_changed());
    assert_eq!(
        finalizer::stage(added.object(), OURS),
        FinalizerStage::Released
    );
    assert_eq!(
        added.object().metadata.finalizers.as_ref().unwrap(),
        &[THEIRS]
    );
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn a_removal_keeps_finalizers_that_were_added_meanwhile() {
    let world = World::new();
    let object = world.client.create(&config("a")).await.unwrap();
    let ours = world
        .client
        .add_finalizers(&object, &[OURS, "a.io/1"])
        .await
        .unwrap();
    let _theirs = world.client.add_finalizer(&object, THEIRS).await.unwrap();
    let left = world
        .client
        .remove_finalizer(ours.object(), OURS)
        .await
        .unwrap();
    let left = left.into_object();
    assert_eq!(
        left.metadata.finalizers.as_ref().unwrap(),
        &["a.io/1", THEIRS]
    );
}
