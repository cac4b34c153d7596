//! What belongs to somebody else is left alone.

use steersman::api::Patch;
use steersman::k8s_openapi::api::apps::v1::ReplicaSet;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use steersman::object::Object as _;
use steersman_testenv::TestEnv;
use website_operator::controller::DIRECTORY;
use website_operator::website::Website;

use crate::world::World;

/// A ConfigMap that was there before bears the name of the site's copy of its pages.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_reported_and_nothing_is_taken_or_deleted() {
    let world = World::start(TestEnv::in_process()).await;
    let mut theirs = world.pages("theirs");
    theirs.metadata.name = Some("hello-site".to_owned());
    world.client.create(&theirs).await.unwrap();
    world.create_hello().await;
    let refused = |site: &Website| {
        site.ready_condition()
            .is_some_and(|c| c.reason == "Refused")
    };
    let site = world.until::<Website>("hello", refused).await;
    let message = &site.ready_condition().unwrap().message;
    assert!(message.contains("hello-site exists"), "{message}");

    world.client.delete(&site).await.unwrap();
    world.until_gone::<Website>("hello").await;
    let left = world.read::<ConfigMap>("hello-site").await.unwrap();
    assert_eq!(left.data, theirs.data);
    assert!(left.metadata.owner_references.is_none());
    world.stop().await;
}

/// Somebody makes room, and the site is served without another event about it.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_freed_is_used() {
    let world = World::start(TestEnv::in_process()).await;
    let mut theirs = world.pages("theirs");
    theirs.metadata.name = Some("hello-site".to_owned());
    let theirs = world.client.create(&theirs).await.unwrap();
    world.create_hello().await;
    let refused = |site: &Website| {
        site.ready_condition()
            .is_some_and(|c| c.reason == "Refused")
    };
    world.until::<Website>("hello", refused).await;
    world.client.delete(&theirs).await.unwrap();
    world.served(2).await;
    world.stop().await;
}

/// Played workloads are told apart by their mark, not by their names.
#[tokio::test(start_paused = true)]
async fn pods_of_others_are_not_played_with() {
    let world = World::start(TestEnv::in_process()).await;
    let place = |name: &str| serde_json::json!({"namespace": &world.namespace, "name": name});
    let spec = serde_json::json!({"containers": [{"name": "dns", "image": "dns:1"}]});
    let labels = serde_json::json!({"k8s-app": "dns"});
    let set: ReplicaSet = serde_json::from_value(serde_json::json!({
        "metadata": place("coredns-abc"),
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }))
    .unwrap();
    let set = world.client.create(&set).await.unwrap();
    let pod = serde_json::json!({"metadata": place("coredns-abc-xyz"), "spec": spec});
    let mut pod: Pod = serde_json::from_value(pod).unwrap();
    steersman::owner::set_controller_reference(&set, &mut pod).unwrap();
    world.client.create(&pod).await.unwrap();
    // A whole site comes to life beside it.
    world.serve_hello().await;
    assert!(world.read::<Pod>("coredns-abc-xyz").await.is_some());
    assert!(world.read::<ReplicaSet>("coredns-abc").await.is_some());
    world.stop().await;
}

/// The cache may lack what an earlier run wrote: the clean-up asks the server.
#[tokio::test(start_paused = true)]
async fn the_directory_is_cleaned_up_behind_a_silent_watch() {
    let world = World::start(TestEnv::in_process()).await;
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

/// A finalizer that somebody took away is put back, so that the clean-up is not skipped.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_was_taken_away_comes_back() {
    let world = World::start(TestEnv::in_process()).await;
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
