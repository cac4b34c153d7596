//! Finalizers that two reconcilers add at once are neither lost nor doubled.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::finalizer::{self, Stage};

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
    assert_eq!(finalizer::stage(&dying, OURS), Stage::CleanUp);
    world.client.remove_finalizer(&dying, OURS).await.unwrap();
    assert!(world.server.get("configmaps", "default", "a").is_none());
    // The error of a removal from an older state says that the object is gone.
    let error = world
        .client
        .remove_finalizer(&dying, OURS)
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
