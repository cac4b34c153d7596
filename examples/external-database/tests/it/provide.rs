//! A database follows its object, and changes at the service are corrected.

use std::future::ready;
use std::time::Duration;

use external_database::controller;
use external_database::database::Database;
use external_database::service::{DatabaseClient, DatabaseService};
use http::Method;
use serde_json::{Value, json};
use steersman::CacheOptions;
use steersman::api::Patch;
use steersman::cache::Settings;

use crate::world::{INTERVAL, World, operator};

#[tokio::test(start_paused = true)]
async fn a_database_follows_its_object_in_process() {
    Box::pin(follow(World::start().await)).await;
}

#[tokio::test]
async fn a_database_follows_its_object_over_http() {
    let service = DatabaseService::new();
    let address = service.serve().await.unwrap();
    let interval = Duration::from_secs(1);
    let operator = operator(DatabaseClient::http(address), interval);
    let operator = operator.over_network().start().await.unwrap();
    let world = World { operator, service };
    world.create().await;
    Box::pin(follow(world)).await;
}

async fn follow(mut world: World) {
    world.until_ready().await;
    assert_eq!(world.settings().unwrap().connections, 10);
    let status = world.read().await.unwrap().status.unwrap();
    assert_eq!(status.database, Some(world.external()));
    assert_eq!(status.secret.as_deref(), Some("orders-credentials"));
    world.operator.tick_until_steady(1_000).await.unwrap();
    world.operator.assert_settled().await.unwrap();

    // A change of the spec.
    let patch = Patch::Merge(json!({"spec": {"connections": 20, "owner": "bob"}}));
    let key = world.operator.key("orders");
    let client = world.operator.client();
    client.patch::<Database>(&key, &patch).await.unwrap();
    until_connections(&world, 20).await;
    world.until_ready().await;
    assert_eq!(world.credentials().await.unwrap().user, "bob");

    // Changes at the service, and of the Secret.
    world.send(&Method::PUT, &json!({"owner": "bob", "connections": 1}));
    until_connections(&world, 20).await;
    world.send(&Method::DELETE, &Value::Null);
    until_connections(&world, 20).await;
    world.until_ready().await;
    let secret = world.secret().await.unwrap();
    world.operator.client().delete(&secret).await.unwrap();
    world.until_ready().await;

    // The poll goes on, and an unchanged database causes no reconcile.
    world.operator.tick_until_steady(1_000).await.unwrap();
    let issued = world.service.with(|records| records.issued());
    let reconciles = world.operator.reconciles();
    let before = world.service.with(|records| records.requests());
    let polled = world.operator.expect("further polls of the service");
    let polled = polled.eventually(|| {
        let after = world.service.with(|records| records.requests());
        let is_polled = after > before + 1;
        ready(is_polled.then_some(()).ok_or_else(|| after.to_string()))
    });
    polled.await.unwrap();
    assert_eq!(world.operator.reconciles(), reconciles);
    assert_eq!(world.service.with(|records| records.issued()), issued);
    world.operator.assert_settled().await.unwrap();

    let client = world.operator.client();
    client.delete_key::<Database>(&key).await.unwrap();
    world.until_gone().await;
    world.operator.stop().await.unwrap();
}

async fn until_connections(world: &World, connections: i32) {
    let seen = world
        .operator
        .expect("the settings at the service")
        .eventually(|| async {
            match world.settings() {
                Some(found) if found.connections == connections => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    seen.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_settled_reconcile_sends_no_request() {
    let minute = Duration::from_secs(60);
    let cache = CacheOptions::new().defaults(Settings::new().resync(minute));
    let service = DatabaseService::new();
    let client = DatabaseClient::in_process(service.clone());
    let operator = operator(client, INTERVAL).cache(controller::cache(cache));
    let operator = operator.start().await.unwrap();
    let mut world = World { operator, service };
    world.create().await;
    world.until_ready().await;
    world.operator.tick_until_steady(1_000).await.unwrap();
    let (reconciles, requests) = (
        world.operator.reconciles(),
        world.operator.requests_sent().unwrap(),
    );
    // A resync requests the owner of the Secret.
    tokio::time::sleep(2 * minute).await;
    assert!(world.operator.reconciles() > reconciles);
    assert_eq!(world.operator.requests_sent().unwrap(), requests);
    world.operator.stop().await.unwrap();
}
