//! The operator makes up for events that it missed.

use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::object::Object as _;

use crate::world::{World, played};

/// REFL-2, STORE-1: the delete event was never sent, and the history with it is compacted.
#[tokio::test(start_paused = true)]
async fn a_delete_behind_a_410_reconciles_the_owner() {
    let world = World::start(played()).await;
    world.serve_hello().await;
    world.cache_equals_server().await;
    let before = world.read::<Deployment>("hello").await.unwrap();

    let server = world.env.server().unwrap();
    assert!(
        server.faults().silence_watches() > 0,
        "the informers were watching"
    );
    server
        .delete("deployments.apps", &world.namespace, "hello")
        .unwrap();
    // The delete wrote a newer revision, so this expires the version that the watches resume from.
    server.compact();
    server.requests().clear();
    assert!(server.faults().cut_watches() > 0);

    world
        .until::<Deployment>("hello", |after| after.uid_str() != before.uid_str())
        .await;
    world.served(2).await;
    world.cache_equals_server().await;
    world.stop().await;
}

/// Watches that end resume where they stopped, without a list.
#[tokio::test(start_paused = true)]
async fn a_cut_watch_resumes_without_a_list() {
    let world = World::start(played()).await;
    world.serve_hello().await;
    world.cache_equals_server().await;
    let server = world.env.server().unwrap();
    server.requests().clear();
    server.faults().cut_watches();
    let deployment = world.read::<Deployment>("hello").await.unwrap();
    world.client.delete(&deployment).await.unwrap();
    world.served(2).await;
    world.cache_equals_server().await;
    let log = server.requests();
    assert_eq!(log.watch_lists("deployments.apps"), 0);
    assert!(log.watches("deployments.apps") > 0);
    world.stop().await;
}
