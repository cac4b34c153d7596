//! CLIENT-3: a change of one object does not reach another object of its name.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use steersman_client::{ClientOptions, Ensured, Error, OptimisticLock};

use crate::world::{World, config, key, set, until};

/// Returns a deleted object, and the object that was created with the same name.
async fn recreated(world: &World) -> (ConfigMap, ConfigMap) {
    let old = world.client.create(&config("a")).await.unwrap();
    let deleted = world.client.delete_key::<ConfigMap>(&key("a")).await;
    deleted.unwrap();
    let new = world.client.create(&config("a")).await.unwrap();
    assert_ne!(old.metadata.uid, new.metadata.uid);
    (old, new)
}

/// CLIENT-3
#[tokio::test(start_paused = true)]
async fn a_change_of_a_replaced_object_is_refused() {
    for lock in [
        OptimisticLock::Lists,
        OptimisticLock::Always,
        OptimisticLock::Never,
    ] {
        let world = World::with(CacheOptions::new(), ClientOptions::new().lock(lock));
        let (old, new) = recreated(&world).await;
        let error = world.client.modify(&old, |c| set(c, "k", "1")).await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{lock:?}: {error}");
        assert!(error.is_not_found() && !error.is_conflict(), "{error}");
        let now: ConfigMap = world.client.live().get(&key("a")).await.unwrap();
        assert_eq!(now, new, "{lock:?}");
    }
}

/// CLIENT-3
#[tokio::test(start_paused = true)]
async fn a_status_without_lists_of_a_replaced_object_is_refused() {
    let world = World::new();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    let old = world.client.create(&deployment).await.unwrap();
    world.client.delete(&old).await.unwrap();
    world.client.create(&deployment).await.unwrap();
    let replicas = |d: &mut Deployment| d.status.get_or_insert_default().replicas = Some(1);
    let patched = world.client.status().modify(&old, replicas).await;
    let error = patched.unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    let mut written = old.clone();
    replicas(&mut written);
    let error = world.client.status().update(&written).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    let now: Deployment = world.client.live().get(&key("a")).await.unwrap();
    assert_eq!(now.status.unwrap_or_default().replicas, None);
}

/// CLIENT-3
#[tokio::test(start_paused = true)]
async fn ensure_starts_again_from_the_new_object_of_the_name() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    world.client.create(&config("a")).await.unwrap();
    until(&mut events, &key("a"), |_| true).await;
    world.server.faults().silence_watches();
    world.server.delete("configmaps", "default", "a").unwrap();
    let mut theirs = config("a");
    set(&mut theirs, "theirs", "1");
    let new = world.client.create(&theirs).await.unwrap();
    let mut seen = Vec::new();
    let ensured = world
        .client
        .ensure(config("a"), |c| {
            seen.push(c.metadata.uid.clone());
            set(c, "ours", "1");
        })
        .await
        .unwrap();
    assert!(matches!(ensured, Ensured::Updated(_)), "{ensured:?}");
    assert_eq!(seen.last(), Some(&new.metadata.uid));
    assert_eq!(ensured.object().data.as_ref().unwrap().len(), 2);
    assert_eq!(world.count(&[Verb::Patch]), 2);
}

#[tokio::test(start_paused = true)]
async fn an_update_carries_uid_and_version() {
    let world = World::new();
    let (old, new) = recreated(&world).await;
    let error = world.client.update(&old).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let writes = world.writes().len();
    let mut unversioned = new.clone();
    unversioned.metadata.resource_version = None;
    let error = world.client.update(&unversioned).await.unwrap_err();
    assert!(matches!(error, Error::VersionMissing { .. }), "{error}");
    assert!(error.to_string().contains("default/a"), "{error}");
    let error = world.client.status().update(&unversioned).await;
    assert!(matches!(error, Err(Error::VersionMissing { .. })));
    assert_eq!(world.writes().len(), writes, "nothing was sent");
}
