//! RYOW-12: a get of an object that its key wrote returns the answer to the write until the cache has seen it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::Patch;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{ByObject, CacheOptions, Transform};
use steersman_client::ClientOptions;
use steersman_object::Object as _;
use tokio::time::Instant;

use super::{answering, deaf, hears_after, lagging, mine, names, reads};
use crate::world::{World, config, key, set};

const THREE: Duration = Duration::from_secs(3);

/// Writes an object three times: creates, changes and applies it.
async fn write(world: &World) -> ConfigMap {
    let client = answering(world);
    client.create(&config("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"k": "1"}}));
    client.patch::<ConfigMap>(&key("a"), &patch).await.unwrap();
    let mut object = config("a");
    set(&mut object, "l", "2");
    client.apply(&object).await.unwrap()
}

/// RYOW-12
#[tokio::test(start_paused = true)]
async fn a_get_of_the_key_that_wrote_returns_the_answer_and_a_list_waits() {
    let world = deaf().await;
    let written = write(&world).await;
    let client = answering(&world);
    let (before, start) = (reads(&world), Instant::now());
    let answered = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(answered.stored_version(), written.stored_version());
    assert_eq!(answered.data.as_ref().unwrap().len(), 2);
    assert_eq!(start.elapsed(), Duration::ZERO);

    hears_after(&world, THREE);
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(start.elapsed(), THREE);
    // The cache holds the object of the answer, without managed fields.
    let cached = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(cached, answered);
    assert_eq!(cached.metadata.managed_fields, None);
    assert_eq!(reads(&world), before, "the server was not asked");
}

/// RYOW-12: what another client wrote is shown as soon as the cache has it.
#[tokio::test(start_paused = true)]
async fn a_newer_object_in_the_cache_is_returned_instead_of_the_answer() {
    let world = deaf().await;
    write(&world).await;
    let theirs = json!({"data": {"k": "theirs"}});
    let changed = world
        .server
        .merge_patch("configmaps", "default", "a", &theirs);
    let version = changed.unwrap()["metadata"]["resourceVersion"].clone();
    world.server.faults().resume_watches();
    let client = answering(&world);
    // Reads of another key do not wait, so this read shows the state of the cache.
    while super::other(&world)
        .get_opt::<ConfigMap>(&key("a"))
        .await
        .unwrap()
        .is_none()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    loop {
        let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
        if *seen.stored_version().as_str() == version {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// RYOW-3, RYOW-9: an answer does not settle a later write with an unknown outcome, nor a delete.
#[tokio::test(start_paused = true)]
async fn a_later_write_without_an_object_in_its_answer_makes_the_get_wait_or_ask() {
    let world = deaf().await;
    write(&world).await;
    let client = answering(&world);
    let lost = Answer::code(504).times(1).after_commit();
    let fault = world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", lost);
    let patch = Patch::Merge(json!({"data": {"k": "lost"}}));
    let error = client
        .patch::<ConfigMap>(&key("a"), &patch)
        .await
        .unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    drop(fault);
    let before = reads(&world);
    let asked = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(asked.data.as_ref().unwrap()["k"], "lost");
    assert_eq!(reads(&world), before + 1);

    client.delete(&*asked).await.unwrap();
    let start = Instant::now();
    hears_after(&world, THREE);
    assert_eq!(client.get_opt::<ConfigMap>(&key("a")).await.unwrap(), None);
    assert_eq!((start.elapsed(), reads(&world)), (THREE, before + 1));
}

/// RYOW-6, RYOW-8: the answer is what the cache would show: transformed, and nothing that a selector excludes.
#[tokio::test(start_paused = true)]
async fn an_answer_is_transformed_and_judged_by_the_selectors() {
    let bare = Transform::typed("bare", |object: &mut ConfigMap| {
        object.data = None;
        Ok::<_, std::convert::Infallible>(())
    });
    let narrow = ByObject::new().labels("app=web").transform(bare);
    let cache = CacheOptions::new().by_object::<ConfigMap>(narrow);
    let world = lagging(cache, ClientOptions::new()).await;
    let client = answering(&world);
    let mut object = config("a");
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    set(&mut object, "k", "v");
    client.create(&object).await.unwrap();
    let start = Instant::now();
    let answered = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(
        (answered.data.clone(), start.elapsed()),
        (None, Duration::ZERO)
    );

    let leave = Patch::Merge(json!({"metadata": {"labels": {"app": null}}}));
    client.patch::<ConfigMap>(&key("a"), &leave).await.unwrap();
    assert_eq!(client.get_opt::<ConfigMap>(&key("a")).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn without_the_option_a_get_waits_for_the_cache() {
    let world = deaf().await;
    write(&world).await;
    let start = Instant::now();
    hears_after(&world, THREE);
    mine(&world).get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(start.elapsed(), THREE);
}
