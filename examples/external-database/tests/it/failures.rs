//! Failures of the service and of the operator leave no database behind, and no password unknown.

use external_database::database::Database;
use k8s_openapi::api::core::v1::Secret;
use steersman_testenv::apiserver::faults::{Answer, Verb};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_is_reported_until_it_works() {
    let world = World::start().await;
    world.service.with(|records| records.fail(10));
    let message = world.until_reason("ServiceUnavailable").await;
    assert!(
        message.contains("503") && message.contains("maintenance"),
        "{message}"
    );
    world.until_ready().await;
    world.operator.stop().await.unwrap();
}

/// The service says a password once: if the Secret was not written, the next reconcile asks for a new one.
#[tokio::test(start_paused = true)]
async fn a_password_that_was_not_kept_is_renewed() {
    let world = World::without_database().await;
    let server = world.operator.server().unwrap();
    let fault = Answer::code(500).times(2);
    let fault = server.faults().answer(Verb::Create, "secrets", fault);
    world.create().await;
    world.until_ready().await;
    assert!(world.service.with(|records| records.issued()) > 1);
    drop(fault);
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_owner_is_left_alone() {
    let mut world = World::start().await;
    world.until_ready().await;
    let key = world.operator.key("orders");
    let client = world.operator.client().clone();
    client.delete_key::<Database>(&key).await.unwrap();
    world.until_gone().await;
    if let Some(left) = world.secret().await {
        client.delete(&left).await.unwrap();
    }
    let theirs = Secret {
        metadata: world.operator.key("orders-credentials").to_meta(),
        ..Secret::default()
    };
    let theirs = client.create(&theirs).await.unwrap();
    let issued = world.service.with(|records| records.issued());
    world.create().await;
    let message = world.until_reason("SecretOccupied").await;
    assert!(message.contains("orders-credentials"), "{message}");
    world.operator.tick_until_steady(100).await.unwrap();
    assert_eq!(
        world.secret().await.unwrap().metadata.uid,
        theirs.metadata.uid
    );
    // No password was requested that could not be kept.
    assert_eq!(world.service.with(|records| records.issued()), issued);
    world.operator.assert_settled().await.unwrap();

    client.delete(&theirs).await.unwrap();
    world.until_ready().await;
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_until_its_database_is_deleted() {
    let world = World::start().await;
    world.until_ready().await;
    world.service.with(|records| records.fail(8));
    let key = world.operator.key("orders");
    let client = world.operator.client();
    client.delete_key::<Database>(&key).await.unwrap();
    world.until_reason("ServiceUnavailable").await;
    assert!(world.settings().is_some());
    world.until_gone().await;
    world.operator.stop().await.unwrap();
}
