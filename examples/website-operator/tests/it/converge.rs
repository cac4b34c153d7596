//! The operator restores a site after every change of the site or of its children.

use steersman::api::Patch;
use steersman::cache::ListOptions;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Service};
use steersman::k8s_openapi::api::events::v1::Event;
use steersman::object::Object as _;
use steersman_testenv::{TestEnv, eventually};
use website_operator::controller::DIRECTORY;
use website_operator::website::Website;

use crate::world::{PAGES, World, played, ready, simulator};

#[tokio::test(start_paused = true)]
async fn a_site_and_its_children_converge_in_process() {
    Box::pin(converges(played())).await;
}

#[tokio::test]
async fn a_site_and_its_children_converge_over_https() {
    let env = TestEnv::builder()
        .server(simulator())
        .start()
        .await
        .unwrap();
    if env.server().is_none() && !env.has_controllers() {
        // That cluster has no controller that creates the Pods of Deployments.
        return;
    }
    Box::pin(converges(env)).await;
}

async fn converges(env: TestEnv) {
    let world = World::start(env).await;
    world.serve_hello().await;
    let directory = world.until::<ConfigMap>(DIRECTORY, lists_hello).await;
    assert!(directory.metadata.owner_references.is_none());

    a_deleted_child_comes_back(&world).await;
    edited_pages_are_served(&world).await;
    missing_pages_are_reported(&world).await;
    a_scaled_site_follows(&world).await;
    a_deleted_site_leaves_nothing(&world).await;
    events_tell_the_story(&world).await;
    world.stop().await;
}

async fn events_tell_the_story(world: &World) {
    let published = eventually("the Events are there", || async {
        let ours = ListOptions::new().namespace(&world.namespace);
        let events = world.client.live().list::<Event>(&ours).await.unwrap();
        let reasons: Vec<String> = events
            .into_iter()
            .filter_map(|event| event.reason)
            .collect();
        let expected = ["Created", "RollingOut", "Served", "PagesMissing"];
        match expected.iter().all(|e| reasons.iter().any(|r| r == e)) {
            true => Ok(()),
            false => Err(format!("{reasons:?}")),
        }
    });
    published.await.unwrap();
}

async fn a_deleted_child_comes_back(world: &World) {
    let before = world.read::<Deployment>("hello").await.unwrap();
    world.client.delete(&before).await.unwrap();
    world
        .until::<Deployment>("hello", |after| after.uid_str() != before.uid_str())
        .await;
    world.served(2).await;

    let service = world.read::<Service>("hello").await.unwrap();
    world.client.delete(&service).await.unwrap();
    world
        .until::<Service>("hello", |after| after.uid_str() != service.uid_str())
        .await;
}

async fn edited_pages_are_served(world: &World) {
    let before = world.read::<Deployment>("hello").await.unwrap();
    let edit = Patch::Merge(serde_json::json!({"data": {"index.html": "edited"}}));
    world
        .client
        .patch::<ConfigMap>(&world.key(PAGES), &edit)
        .await
        .unwrap();
    let text = |map: &ConfigMap| map.data.as_ref()?.get("index.html").cloned();
    let edited = |copy: &ConfigMap| text(copy).as_deref() == Some("edited");
    world.until::<ConfigMap>("hello-site", edited).await;
    let generation = |d: &Deployment| d.metadata.generation;
    world
        .until::<Deployment>("hello", |d| generation(d) > generation(&before))
        .await;
    world.served(2).await;
    // The Pods with the old pages are deleted.
    let only_new = eventually("two pods are left", || async {
        let pods = world.pods().await;
        if pods.len() == 2 {
            Ok(())
        } else {
            Err(format!("{} pods", pods.len()))
        }
    });
    only_new.await.unwrap();
}

async fn missing_pages_are_reported(world: &World) {
    world
        .client
        .delete_key::<ConfigMap>(&world.key(PAGES))
        .await
        .unwrap();
    let missing = |site: &Website| ready(site).is_some_and(|c| c.reason == "PagesMissing");
    let site = world.until::<Website>("hello", missing).await;
    assert!(ready(&site).unwrap().message.contains(PAGES));
    world.client.create(&world.pages("back")).await.unwrap();
    world.served(2).await;
}

async fn a_scaled_site_follows(world: &World) {
    for replicas in [3, 1] {
        let scale = Patch::Merge(serde_json::json!({"spec": {"replicas": replicas}}));
        world
            .client
            .patch::<Website>(&world.key("hello"), &scale)
            .await
            .unwrap();
        world.served(replicas).await;
    }
}

async fn a_deleted_site_leaves_nothing(world: &World) {
    world
        .client
        .delete_key::<Website>(&world.key("hello"))
        .await
        .unwrap();
    world.until_gone::<Website>("hello").await;
    let directory = world.read::<ConfigMap>(DIRECTORY).await.unwrap();
    assert!(
        !lists_hello(&directory),
        "the finalizer goes after the entry: {directory:?}"
    );
    world.until_gone::<Deployment>("hello").await;
    world.until_gone::<Service>("hello").await;
    world.until_gone::<ConfigMap>("hello-site").await;
    let gone = eventually("no pod is left", || async {
        let pods = world.pods().await;
        if pods.is_empty() {
            Ok(())
        } else {
            Err(format!("{} pods", pods.len()))
        }
    });
    gone.await.unwrap();
}

fn lists_hello(directory: &ConfigMap) -> bool {
    directory
        .data
        .as_ref()
        .is_some_and(|entries| entries.contains_key("hello"))
}
