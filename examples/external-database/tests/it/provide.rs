//! A database follows its object, and changes at the service are corrected.

use std::time::Duration;

use external_database::database::Database;
use external_database::service::{DatabaseClient, DatabaseService};
use http::Method;
use serde_json::{Value, json};
use steersman::api::Patch;

use crate::world::{INTERVAL, World, operator};

#[tokio::test(start_paused = true)]
async fn a_database_follows_its_object_in_process() {
    Box::pin(follow(World::start().await, INTERVAL)).await;
}

#[tokio::test]
async fn a_database_follows_its_object_over_http() {
    let service = DatabaseService::new();
    let address = service.serve().await.unwrap();
    // Longer than the quiet time of the harness.
    let interval = Duration::from_millis(1_500);
    let operator = operator(DatabaseClient::http(address), interval);
    let operator = operator.over_network().start().await.unwrap();
    let world = World { operator, service };
    world.create().await;
    Box::pin(follow(world, interval)).await;
}

async fn follow(mut world: World, interval: Duration) {
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

    // Polling goes on, and writes nothing.
    world.operator.tick_until_steady(1_000).await.unwrap();
    let issued = world.service.with(|records| records.issued());
    let before = world.operator.reconciles();
    tokio::time::sleep(interval * 3).await;
    assert!(world.operator.reconciles() > before);
    world.operator.tick_until_steady(1_000).await.unwrap();
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
