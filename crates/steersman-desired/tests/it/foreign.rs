//! SET-2: an object of the name of a child that the owner does not control is left alone.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::ClientOptions;
use steersman_desired::{AbsentChild, Child, ChildState, DesiredSet, SetOutcome};
use steersman_object::status_conditions::{READY, STALLED, is_false, is_true};

use crate::world::{World, config, key};

fn pair(world: &World) -> DesiredSet {
    let mut set = world.set();
    set.add(Child::of(&config("taken")));
    set.add(Child::of(&config("ours")));
    set
}

/// SET-2
#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_neither_applied_nor_adopted() {
    let world = World::new().await;
    let mut foreign = config("taken");
    foreign
        .data
        .as_mut()
        .unwrap()
        .insert("k".to_owned(), "theirs".to_owned());
    world.client.create(&foreign).await.unwrap();
    let before = world.get("configmaps", "taken");
    let outcome = world.apply(pair(&world)).await;
    assert_eq!(world.get("configmaps", "taken"), before);
    let failed = &outcome.children()[0];
    assert!(matches!(failed.state, ChildState::Failed(_)), "{failed:?}");
    assert!(
        failed.needs_help() && outcome.children()[1].is_ready(),
        "{outcome:?}"
    );
    let mut conditions = Vec::new();
    outcome.set_conditions(
        &mut conditions,
        Some(1),
        k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
    );
    assert!(
        is_false(&conditions, READY) && is_true(&conditions, STALLED),
        "{conditions:?}"
    );

    // Once the object is gone, the child has its name.
    world
        .client
        .delete_key::<ConfigMap>(&key("taken"))
        .await
        .unwrap();
    world.until(pair, SetOutcome::is_ready).await;
}

/// SET-2: the cache shows only objects with a label, which the foreign object lacks.
#[tokio::test(start_paused = true)]
async fn a_foreign_object_that_a_selector_hides_is_left_alone() {
    let narrow = ByObject::new().labels(crate::world::LABEL);
    let cache = CacheOptions::new().by_object::<ConfigMap>(narrow);
    let world = World::with(cache, ClientOptions::new()).await;
    world.client.create(&config("taken")).await.unwrap();
    let before = world.get("configmaps", "taken");
    let outcome = world.apply(pair(&world)).await;
    assert!(
        matches!(outcome.children()[0].state, ChildState::Failed(_)),
        "{outcome:?}"
    );
    assert!(outcome.children()[1].is_ready(), "{outcome:?}");
    assert_eq!(world.get("configmaps", "taken"), before);
}

/// SET-1
#[tokio::test(start_paused = true)]
async fn a_foreign_object_counts_as_absent_and_is_not_deleted() {
    let world = World::new().await;
    world.client.create(&config("taken")).await.unwrap();
    let mut set = world.set();
    let absent = set.add_absent(AbsentChild::<ConfigMap>::of(key("taken")));
    let after = set.add(Child::of(&config("after")).after(absent));
    let outcome = world.apply(set).await;
    assert!(
        outcome.is_child_ready(absent) && outcome.is_child_ready(after),
        "{outcome:?}"
    );
    assert!(matches!(
        outcome.child(absent).unwrap().state,
        ChildState::Absent
    ));
    assert!(world.get("configmaps", "taken").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_being_deleted_is_applied_again_once_it_is_gone() {
    use serde_json::json;

    let world = World::new().await;
    let one = |world: &World| {
        let mut set = world.set();
        set.add(Child::of(&config("a")));
        set
    };
    world.until(one, SetOutcome::is_ready).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &hold)
        .unwrap();
    world.server.delete("configmaps", "default", "a").unwrap();
    let is_terminating =
        |outcome: &SetOutcome| matches!(outcome.children()[0].state, ChildState::Terminating);
    world.until(one, is_terminating).await;
    let free = json!({"metadata": {"finalizers": null}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &free)
        .unwrap();
    world.until(one, SetOutcome::is_ready).await;
    let object = world.get("configmaps", "a").unwrap();
    assert!(object["metadata"]["deletionTimestamp"].is_null());
}
