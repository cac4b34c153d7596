//! The operator watches metadata, and reads data only when it must.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use secret_replicator::controller;
use serde_json::json;
use steersman::api::Patch;
use steersman::cache::Settings;
use steersman::{CacheOptions, ObjectKey};
use steersman_testenv::apiserver::faults::{RequestRecord, Verb};

use crate::world::{World, operator};

fn is_read_of_data(request: &RequestRecord) -> bool {
    let reads = [Verb::Get, Verb::List, Verb::Watch];
    let is_read = reads.into_iter().any(|verb| request.does(verb));
    let is_operator = !request.user_agent.starts_with("steersman-harness");
    is_operator && is_read && request.is_for("secrets") && !request.is_metadata_only()
}

#[tokio::test(start_paused = true)]
async fn a_settled_reconcile_sends_no_request() {
    let minute = Duration::from_secs(60);
    let cache = CacheOptions::new().defaults(Settings::new().resync(minute));
    let mut world = World::start(operator().cache(controller::cache(cache))).await;
    world.create_source(&world.everywhere()).await;
    world.until(&world.shop, Some("first")).await;
    world.until(&world.web, Some("first")).await;
    world.operator.tick_until_steady(100).await.unwrap();
    let (reconciles, requests) = (
        world.operator.reconciles(),
        world.operator.requests_sent().unwrap(),
    );
    // A resync requests the source.
    tokio::time::sleep(2 * minute).await;
    assert!(world.operator.reconciles() > reconciles);
    assert_eq!(world.operator.requests_sent().unwrap(), requests);
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn data_is_read_once_per_change_and_never_watched() {
    let mut world = World::start(operator()).await;
    let server = world.operator.server().unwrap().clone();
    let log = server.requests();
    world.create_source(&world.everywhere()).await;
    world.until(&world.shop, Some("first")).await;
    world.until(&world.web, Some("first")).await;
    world.operator.tick_until_steady(100).await.unwrap();
    // The source, and the absence of two copies.
    let read = log.matching(is_read_of_data);
    assert_eq!(read.len(), 3, "{read:?}");
    assert!(read.iter().all(|request| request.does(Verb::Get)));
    assert_eq!(
        log.watch_lists("secrets"),
        1,
        "one watch, of sources and copies"
    );

    // An event of a namespace causes a reconcile, which reads no data.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"colour": "blue"}}}));
    let web = ObjectKey::cluster_scoped(&*world.web);
    let client = world.operator.client();
    client.patch::<Namespace>(&web, &patch).await.unwrap();
    assert_eq!(world.operator.tick_until_steady(1).await.unwrap(), 1);
    assert_eq!(log.count(is_read_of_data), 3);

    // After a restart each copy is compared once, and none is written.
    world.operator.assert_settled().await.unwrap();
    assert_eq!(log.count(is_read_of_data), 6);
    world.operator.stop().await.unwrap();
}
