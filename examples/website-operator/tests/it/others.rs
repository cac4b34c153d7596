//! The operator does not change objects of other owners.

use steersman::api::Patch;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::Object as _;
use website_operator::controller::DIRECTORY;
use website_operator::website::Website;

use crate::world::{World, played, ready};

/// A ConfigMap that another owner created has the name of the site's copy of its pages.
#[tokio::test(start_paused = true)]
async fn an_occupied_name_is_reported_and_its_object_is_kept() {
    let world = World::start(played()).await;
    let mut theirs = world.pages("theirs");
    theirs.metadata.name = Some("hello-site".to_owned());
    world.client.create(&theirs).await.unwrap();
    world.create_hello().await;
    let refused = |site: &Website| ready(site).is_some_and(|c| c.reason == "Refused");
    let site = world.until::<Website>("hello", refused).await;
    let message = &ready(&site).unwrap().message;
    assert!(message.contains("hello-site exists"), "{message}");

    world.client.delete(&site).await.unwrap();
    world.until_gone::<Website>("hello").await;
    let left = world.read::<ConfigMap>("hello-site").await.unwrap();
    assert_eq!(left.data, theirs.data);
    assert!(left.metadata.owner_references.is_none());
    world.stop().await;
}

/// The obstacle is removed, and the site is served without another event about it.
#[tokio::test(start_paused = true)]
async fn a_child_is_created_once_its_name_is_free() {
    let world = World::start(played()).await;
    let mut theirs = world.pages("theirs");
    theirs.metadata.name = Some("hello-site".to_owned());
    let theirs = world.client.create(&theirs).await.unwrap();
    world.create_hello().await;
    let refused = |site: &Website| ready(site).is_some_and(|c| c.reason == "Refused");
    world.until::<Website>("hello", refused).await;
    world.client.delete(&theirs).await.unwrap();
    world.served(2).await;
    world.stop().await;
}

/// The cache may lack what an earlier process wrote, so the clean-up reads from the server.
#[tokio::test(start_paused = true)]
async fn the_directory_is_cleaned_up_behind_a_silent_watch() {
    let world = World::start(played()).await;
    let server = world.env.server().unwrap();
    world.client.create(&world.pages("hi")).await.unwrap();
    world.cache_equals_server().await;
    server.faults().silence_watches_of("configmaps");
    world.create_hello_site().await;
    world.served(2).await;
    let entries = |directory: &ConfigMap| directory.data.clone().unwrap_or_default();
    let listed = |directory: &ConfigMap| entries(directory).contains_key("hello");
    world.until::<ConfigMap>(DIRECTORY, listed).await;
    world
        .client
        .delete_key::<Website>(&world.key("hello"))
        .await
        .unwrap();
    world.until_gone::<Website>("hello").await;
    let directory = world.read::<ConfigMap>(DIRECTORY).await.unwrap();
    assert!(!listed(&directory), "{directory:?}");
    world.stop().await;
}

/// The API server's defaults and a container of another writer are no part of the desired children.
#[tokio::test(start_paused = true)]
async fn fields_of_other_writers_are_unchanged() {
    let world = World::start(played()).await;
    world.serve_hello().await;
    let with_sidecar = serde_json::json!({"spec": {"template": {"spec": {
        "containers": [{"name": "sidecar", "image": "proxy:1"}],
    }}}});
    let patch = Patch::Strategic(with_sidecar);
    let patched = world
        .client
        .patch::<Deployment>(&world.key("hello"), &patch)
        .await
        .unwrap();
    let scale = Patch::Merge(serde_json::json!({"spec": {"replicas": 3}}));
    world
        .client
        .patch::<Website>(&world.key("hello"), &scale)
        .await
        .unwrap();
    world.served(3).await;
    let mut after = world.read::<Deployment>("hello").await.unwrap();
    let mut before = patched.spec.unwrap();
    let after = after.spec.as_mut().unwrap();
    assert_eq!(after.template.spec.as_ref().unwrap().containers.len(), 2);
    before.replicas = Some(3);
    assert_eq!(*after, before);
    world.stop().await;
}

/// A finalizer that was removed by hand is restored, so that the clean-up is not skipped.
#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_is_restored() {
    let world = World::start(played()).await;
    let site = world.serve_hello().await;
    let none = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
    world
        .client
        .patch::<Website>(&site.key(), &none)
        .await
        .unwrap();
    let held = |site: &Website| site.metadata.finalizers.is_some();
    world.until::<Website>("hello", held).await;
    world.stop().await;
}
