//! Children: created or changed together with their controller reference.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::owner::{OwnerError, controller_of};
use steersman_client::{Ensured, Error, finalizer};

use crate::world::{World, config, key, set, until};

#[tokio::test(start_paused = true)]
async fn a_child_is_created_owned_and_changed_when_it_differs() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let owner = world.client.create(&config("owner")).await.unwrap();
    for value in ["1", "2"] {
        let ensured = world
            .client
            .ensure(config("child"), |child| set(child, "k", value))
            .owned_by(&owner)
            .await
            .unwrap();
        let child = ensured.object();
        let controller = controller_of(&child.metadata).unwrap();
        assert_eq!(Some(&controller.uid), owner.metadata.uid.as_ref());
        assert_eq!(child.data.as_ref().unwrap()["k"], value);
        assert_eq!(matches!(ensured, Ensured::Created(_)), value == "1");
        until(&mut events, &key("child"), |_| true).await;
    }
}

/// The error is the same whether or not the cache has seen the object.
#[tokio::test(start_paused = true)]
async fn an_existing_object_without_a_controller_is_not_adopted() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let owner = world.client.create(&config("owner")).await.unwrap();
    for name in ["seen", "unseen"] {
        world.client.create(&config(name)).await.unwrap();
        if name == "seen" {
            until(&mut events, &key(name), |_| true).await;
        }
        let refused = world
            .client
            .ensure(config(name), |child| set(child, "k", "taken"))
            .owned_by(&owner)
            .await;
        let not_taken = matches!(refused, Err(Error::Owner(OwnerError::NotControlled { .. })));
        assert!(not_taken, "{name}: {refused:?}");
        let there = world.server.get("configmaps", "default", name).unwrap();
        assert_eq!(
            there["metadata"]["ownerReferences"],
            serde_json::Value::Null
        );
        assert_eq!(there["data"], serde_json::Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_of_another_controller_is_left_alone() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let theirs = world.client.create(&config("theirs")).await.unwrap();
    let ours = world.client.create(&config("ours")).await.unwrap();
    let child = config("child");
    world
        .client
        .ensure(child.clone(), |_| {})
        .owned_by(&theirs)
        .await
        .unwrap();
    until(&mut events, &key("child"), |_| true).await;
    let writes = world.writes().len();
    let refused = world
        .client
        .ensure(child, |child| set(child, "k", "stolen"))
        .owned_by(&ours)
        .await;
    assert!(matches!(refused, Err(Error::Owner(_))), "{refused:?}");
    assert_eq!(world.writes().len(), writes, "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_an_owner_that_was_never_created() {
    let world = World::new();
    let _events = world.cached::<ConfigMap>().await;
    let refused = world
        .client
        .ensure(config("child"), |_| {})
        .owned_by(&config("ghost"))
        .await;
    assert!(matches!(refused, Err(Error::Owner(_))), "{refused:?}");
    assert!(world.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_child_is_deleted_once_and_its_end_is_told() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let client = &world.client;
    let owner = client.create(&config("owner")).await.unwrap();
    let held = |child: &mut ConfigMap| {
        finalizer::add(child, "example.com/hold");
    };
    for (name, is_held) in [("free", false), ("held", true)] {
        let mutate = |child: &mut ConfigMap| {
            if is_held {
                held(child)
            }
        };
        let ensured = client.ensure(config(name), mutate).owned_by(&owner);
        ensured.await.unwrap();
        until(&mut events, &key(name), |_| true).await;
        let child = key(name);
        let gone = client.ensure_absent::<ConfigMap>(&child).owned_by(&owner);
        assert_eq!(gone.await.unwrap(), !is_held, "{name}");
        let writes = world.writes().len();
        let gone = client.ensure_absent::<ConfigMap>(&child).owned_by(&owner);
        assert_eq!(gone.await.unwrap(), !is_held, "{name}");
        assert_eq!(world.writes().len(), writes, "nothing was sent");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_controller_itself_deletes_a_child() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let client = &world.client;
    let owner = client.create(&config("owner")).await.unwrap();
    let other = client.create(&config("other")).await.unwrap();
    let ensured = client.ensure(config("child"), |_| {}).owned_by(&owner);
    ensured.await.unwrap();
    until(&mut events, &key("child"), |_| true).await;
    client.create(&config("free")).await.unwrap();
    until(&mut events, &key("free"), |_| true).await;
    let mut successor = owner.clone();
    successor.metadata.uid = Some("another".to_owned());
    let writes = world.writes().len();
    for (owner, name) in [(&other, "child"), (&successor, "child"), (&owner, "free")] {
        let child = key(name);
        let refused = client.ensure_absent::<ConfigMap>(&child).owned_by(owner);
        let refused = refused.await.unwrap_err();
        let is_not_own = matches!(refused, Error::Owner(OwnerError::NotOwn { .. }));
        assert!(is_not_own, "{refused}");
    }
    assert_eq!(world.writes().len(), writes, "nothing was sent");
}
