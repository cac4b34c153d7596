//! Copies follow their source, and nothing else is changed.

use k8s_openapi::api::core::v1::Secret;
use secret_replicator::names::{NAMESPACES, ROLE, source_of};
use serde_json::json;
use steersman::ObjectKey;

use crate::world::{NAME, World, operator};

/// The values `second` and `theirs` in base64.
const SECOND: &str = "c2Vjb25k";
const THEIRS: &str = "dGhlaXJz";

#[tokio::test(start_paused = true)]
async fn copies_follow_their_source_in_process() {
    Box::pin(follow(World::start(operator()).await)).await;
}

#[tokio::test]
async fn copies_follow_their_source_over_the_network() {
    Box::pin(follow(World::start(operator().over_network()).await)).await;
}

async fn follow(mut world: World) {
    world.create_source(&world.everywhere()).await;
    let (shop, web) = (world.shop.to_string(), world.web.to_string());
    let source = world.operator.namespace().to_owned();
    for namespace in [&shop, &web] {
        world.until(namespace, Some("first")).await;
        let copy = world.secret(namespace).await.unwrap();
        assert_eq!(source_of(&copy), Some(&*format!("{source}/{NAME}")));
    }
    assert!(world.secret(&world.private).await.is_none());

    // A change of the source, a change of a copy, and a deleted copy.
    world.patch(&source, json!({"data": {"key": SECOND}})).await;
    world.until(&shop, Some("second")).await;
    world.until(&web, Some("second")).await;
    world.patch(&shop, json!({"data": {"key": THEIRS}})).await;
    world.until(&shop, Some("second")).await;
    let copy = world.secret(&web).await.unwrap();
    world.operator.client().delete(&copy).await.unwrap();
    world.until(&web, Some("second")).await;
    world.operator.tick_until_steady(1_000).await.unwrap();
    world.operator.assert_settled().await.unwrap();

    // A namespace that does not accept copies any more, and one that begins to.
    world.accept(&shop, "false").await;
    world.accept(&world.private, "true").await;
    world.until(&world.private, Some("second")).await;
    world.until(&shop, None).await;

    // A source that names other namespaces, and one that is a source no more.
    let only_web = json!({"metadata": {"annotations": {NAMESPACES: web}}});
    world.patch(&source, only_web).await;
    world.until(&world.private, None).await;
    world
        .patch(&source, json!({"metadata": {"labels": {ROLE: null}}}))
        .await;
    world.until(&web, None).await;
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_namespace_that_accepts_none_any_more_is_deleted() {
    let mut world = World::start(operator()).await;
    world.create_source(&world.everywhere()).await;
    world.until(&world.shop, Some("first")).await;
    world.operator.tick_until_steady(100).await.unwrap();
    world.accept(&world.shop, "false").await;
    world.until(&world.shop, None).await;
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_source_that_was_deleted_meanwhile_are_deleted() {
    let mut world = World::start(operator()).await;
    let source = world.create_source(&world.everywhere()).await;
    world.until(&world.shop, Some("first")).await;
    world.operator.halt().await.unwrap();
    world.operator.client().delete(&source).await.unwrap();
    world.operator.restart().await.unwrap();
    world.until(&world.shop, None).await;
    world.until(&world.web, None).await;
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_owner_is_left_alone_until_it_is_gone() {
    let mut world = World::start(operator()).await;
    let theirs = Secret {
        metadata: ObjectKey::namespaced(&*world.shop, NAME).to_meta(),
        ..Secret::default()
    };
    let theirs = world.operator.client().create(&theirs).await.unwrap();
    world.create_source(&world.everywhere()).await;
    world.until(&world.web, Some("first")).await;
    world.operator.tick_until_steady(100).await.unwrap();
    let left = world.secret(&world.shop).await.unwrap();
    assert_eq!(
        left.metadata.resource_version,
        theirs.metadata.resource_version
    );
    world.operator.assert_settled().await.unwrap();

    world.operator.client().delete(&theirs).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    world.until(&world.shop, Some("first")).await;
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_source_of_another_type_gets_new_copies() {
    let mut world = World::start(operator()).await;
    let source = world.create_source(&world.everywhere()).await;
    world.until(&world.shop, Some("first")).await;
    world.operator.halt().await.unwrap();
    let before = world.secret(&world.shop).await.unwrap();
    let client = world.operator.client();
    client.delete(&source).await.unwrap();
    let mut other = source.clone();
    other.metadata.uid = None;
    other.metadata.resource_version = None;
    other.metadata.creation_timestamp = None;
    other.type_ = Some("example.com/token".to_owned());
    client.create(&other).await.unwrap();
    world.operator.restart().await.unwrap();
    let changed = world
        .operator
        .expect("a copy of the other type")
        .eventually(|| async {
            let copy = world.secret(&world.shop).await.ok_or("no copy")?;
            match copy.type_ == other.type_ {
                true => Ok(copy),
                false => Err(format!("{:?}", copy.type_)),
            }
        });
    let copy = changed.await.unwrap();
    assert_ne!(copy.metadata.uid, before.metadata.uid);
    world.operator.stop().await.unwrap();
}
