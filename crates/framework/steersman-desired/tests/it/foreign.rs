//! Tests SET-2: an object with the name of a child that the owner does not control is left alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::faults::Verb;
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::{ClientOptions, Error as ClientError, ReadConsistency};
use steersman_desired::{AbsentChild, Child, ChildState, DesiredSet, SetOutcome};
use steersman_object::status_conditions::{READY, STALLED, is_false, is_true};

use crate::world::{World, config, key};

fn pair(world: &World) -> DesiredSet {
    let mut set = world.set();
    set.add(Child::of(&config("taken")));
    set.add(Child::of(&config("ours")));
    set
}

/// SET-2: an object that the owner does not control is not applied.
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

    // After the deletion of the foreign object, the child is created.
    world
        .client
        .delete_key::<ConfigMap>(&key("taken"))
        .await
        .unwrap();
    world.until(pair, SetOutcome::is_ready).await;
}

/// SET-2: a selector of the cache hides the foreign object.
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
    // The program reads only the foreign object from the server.
    let reads = world
        .server
        .requests()
        .matching(|request| request.does(Verb::Get));
    let names: Vec<_> = reads
        .iter()
        .filter_map(|read| read.name.as_deref())
        .collect();
    assert_eq!(names, ["taken"]);
}

fn foreign() -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "taken", "namespace": "default"}, "data": {"theirs": "1"},
    })
}

/// Returns whether the first child failed because the owner does not control the object with its name.
fn is_refused(outcome: &SetOutcome) -> bool {
    let state = &outcome.children()[0].state;
    matches!(state, ChildState::Failed(error) if matches!(**error, ClientError::Owner(_)))
}

/// SET-2: another program has just created the object, and the cache has not seen it.
#[tokio::test(start_paused = true)]
async fn a_foreign_object_that_the_cache_has_not_seen_is_left_alone() {
    let world = World::new().await;
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 1);
    let before = world.server.create(foreign()).unwrap();
    for _ in 0..2 {
        let outcome = world.apply(pair(&world)).await;
        assert!(is_refused(&outcome), "{outcome:?}");
        assert!(outcome.children()[1].is_ready(), "{outcome:?}");
    }
    assert_eq!(world.get("configmaps", "taken"), Some(before));
}

/// SET-2: the cache still has the replaced child.
#[tokio::test(start_paused = true)]
async fn a_foreign_object_that_has_replaced_a_child_is_left_alone() {
    let world = World::new().await;
    world.until(pair, SetOutcome::is_ready).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let server = &world.server;
    server.delete("configmaps", "default", "taken").unwrap();
    let changed = |world: &World| {
        let mut taken = config("taken");
        taken.data = Some([("k".to_owned(), "changed".to_owned())].into());
        let mut set = world.set();
        set.add(Child::of(&taken));
        set.add(Child::of(&config("ours")));
        set
    };
    let before = server.create(foreign()).unwrap();
    let outcome = world.apply(changed(&world)).await;
    assert!(is_refused(&outcome), "{outcome:?}");
    assert_eq!(world.get("configmaps", "taken"), Some(before));
    // After the deletion of the foreign object, the child is created again.
    server.delete("configmaps", "default", "taken").unwrap();
    let outcome = world.apply(changed(&world)).await;
    assert!(outcome.children()[0].is_ready(), "{outcome:?}");
}

/// SET-2: a child that this process created is recognized, although neither the cache nor the record of own writes
/// shows it.
#[tokio::test(start_paused = true)]
async fn a_child_that_the_cache_has_not_seen_is_applied_again() {
    let world = World::new().await;
    world.server.faults().silence_watches_of("configmaps");
    let client = world.client.read_consistency(ReadConsistency::None);
    let run = || async { pair(&world).apply(&client).await.unwrap() };
    assert!(run().await.is_ready());
    let created = world.get("configmaps", "taken").unwrap();
    let outcome = run().await;
    assert!(outcome.is_ready(), "{outcome:?}");
    let state = &outcome.children()[0].state;
    assert!(
        matches!(state, ChildState::Applied { created: false }),
        "{state:?}"
    );
    assert_eq!(world.get("configmaps", "taken"), Some(created));
}

/// SET-1: only a child of the owner is deleted.
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
