//! Tests SET-1 and SET-3: children that are not in the set are deleted, and no other object.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::ObjectMeta;
use serde_json::json;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_desired::{Child, ChildState, DesiredSet, Error, SetOutcome};
use steersman_object::owner::set_controller;
use steersman_object::{Kind, Object as _};

use crate::world::{LABEL, World, config, deployment, job, key, pods, service};

fn of(names: &[&str]) -> impl Fn(&World) -> DesiredSet {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    move |world: &World| {
        let mut set = world.set();
        for name in &names {
            set.add(Child::of(&config(name)));
        }
        set
    }
}

/// Returns a ConfigMap with this label value and this controller.
fn labelled(name: &str, label: Option<&str>, controller: Option<&ConfigMap>) -> ConfigMap {
    let mut object = config(name);
    object.metadata.labels = label.map(|uid| [(LABEL.to_owned(), uid.to_owned())].into());
    if let Some(controller) = controller {
        set_controller(controller, &Kind::of::<ConfigMap>(), &mut object).unwrap();
    }
    object
}

/// SET-1, operator-rs#861: no object of another owner or set is pruned.
#[tokio::test(start_paused = true)]
async fn only_children_of_this_owner_and_set_are_pruned() {
    let world = World::new().await;
    let uid = world.owner.uid_str();
    let other = world.client.create(&config("other-owner")).await.unwrap();
    for object in [
        // A child of another owner, with a copied label.
        labelled("theirs", Some(uid), Some(&other)),
        // A child of the owner that another controller has made, without the label.
        labelled("unlabelled", None, Some(&world.owner)),
        labelled("of-another-set", Some("another"), Some(&world.owner)),
        // An object without an owner, with a copied label.
        labelled("free", Some(uid), None),
    ] {
        world.client.create(&object).await.unwrap();
    }
    world
        .until(of(&["a", "b", "c"]), SetOutcome::is_ready)
        .await;
    let fewer = of(&["b"]);
    let first = world.apply(fewer(&world)).await;
    assert!(first.is_ready(), "{first:?}");
    let pruned: Vec<_> = first
        .children()
        .iter()
        .filter(|child| child.pruned)
        .collect();
    assert_eq!(pruned.len(), 2);
    assert!(
        pruned
            .iter()
            .all(|child| matches!(child.state, ChildState::Deleting))
    );
    world
        .until(fewer, |outcome| outcome.children().len() == 1)
        .await;
    let left = ["b", "of-another-set", "theirs", "unlabelled"];
    assert_eq!(world.children("configmaps"), left);
    assert!(world.get("configmaps", "free").is_some());
}

/// SET-1: the children of a deleted owner with the same name are left to the garbage collector.
#[tokio::test(start_paused = true)]
async fn children_of_a_predecessor_are_left_to_the_garbage_collector() {
    let world = World::new().await;
    let mut successor = world.owner.clone();
    world.until(of(&["a"]), SetOutcome::is_ready).await;
    successor.metadata.uid = Some("another".to_owned());
    // The label alone does not make an object a child.
    let label = json!({"metadata": {"labels": {LABEL: "another"}}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &label)
        .unwrap();
    let is_seen = |config: &ConfigMap| {
        let labels = config.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels[LABEL] == "another")
    };
    while !is_seen(
        &world
            .client
            .cache()
            .get::<ConfigMap>(&key("a"))
            .await
            .unwrap(),
    ) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let mut set = DesiredSet::new(&successor, LABEL).owns::<ConfigMap>();
    set.add(Child::of(&config("b")));
    let outcome = set.apply(&world.client.dry_run()).await.unwrap();
    assert_eq!(outcome.children().len(), 1, "{outcome:?}");
    assert!(world.get("configmaps", "a").is_some());
}

/// SET-1: a child that has just been given to another owner stays.
#[tokio::test(start_paused = true)]
async fn a_child_that_has_changed_is_judged_again_before_it_is_deleted() {
    let world = World::new().await;
    world.until(of(&["a", "b"]), SetOutcome::is_ready).await;
    let other = world.client.create(&config("other-owner")).await.unwrap();
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 1);
    let given = labelled("a", None, Some(&other)).metadata.owner_references;
    let given = json!({"metadata": {"ownerReferences": given}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &given)
        .unwrap();
    let changed = json!({"data": {"k": "changed"}});
    world
        .server
        .merge_patch("configmaps", "default", "b", &changed)
        .unwrap();
    let outcome = world.apply(of(&[])(&world)).await;
    assert_eq!(outcome.failures().count(), 0, "{outcome:?}");
    assert_eq!(world.children("configmaps"), ["a"]);
}

/// SET-1: a child that has just lost the set's label stays.
#[tokio::test(start_paused = true)]
async fn a_child_that_has_left_the_set_is_not_deleted() {
    let world = World::new().await;
    world.until(of(&["a", "b"]), SetOutcome::is_ready).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 1);
    let other = json!({"metadata": {"labels": {LABEL: "another"}}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &other)
        .unwrap();
    let outcome = world.apply(of(&["b"])(&world)).await;
    assert_eq!(outcome.failures().count(), 0, "{outcome:?}");
    assert_eq!(world.children("configmaps"), ["a", "b"]);
}

/// SET-3: children are pruned only after every child was applied.
#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_while_a_child_fails_or_waits() {
    let world = World::new().await;
    world.until(of(&["old"]), SetOutcome::is_ready).await;
    let refused = Answer::code(500).times(1);
    let fault = world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", refused);
    let failed = world.apply(of(&["new"])(&world)).await;
    assert_eq!(failed.failures().count(), 1, "{failed:?}");
    let kept = failed.children().last().unwrap();
    assert!(
        kept.pruned && matches!(kept.state, ChildState::Waiting { .. }),
        "{failed:?}"
    );
    drop(fault);
    let waiting = |world: &World| {
        let mut set = world.set();
        let never = set.add(Child::of(&config("new")).ready_when(|_| false));
        set.add(Child::of(&config("later")).after(never));
        set
    };
    let _ = world.apply(waiting(&world)).await;
    assert_eq!(world.children("configmaps"), ["new", "old"]);
    world
        .until(of(&["new"]), |outcome| outcome.children().len() == 1)
        .await;
    assert_eq!(world.children("configmaps"), ["new"]);
}

/// A Job is deleted together with its Pods, which the server's default would leave.
#[tokio::test(start_paused = true)]
async fn an_empty_set_ends_with_nothing_left() {
    let world = World::new().await;
    let full = |world: &World| {
        let mut set = world.set();
        set.add(Child::of(&config("a")));
        set.add(Child::of(&service("a")));
        set.add(Child::of(&deployment("a")));
        set.add(Child::of(&job("a")));
        set
    };
    world.until(full, SetOutcome::is_ready).await;
    assert_eq!(pods(&world).await, 3);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world
        .server
        .merge_patch("services", "default", "a", &hold)
        .unwrap();
    let empty = |world: &World| world.set();
    let only_service_is_left = |outcome: &SetOutcome| {
        assert!(!outcome.is_gone(), "{outcome:?}");
        outcome.children().len() == 1
    };
    world.until(empty, only_service_is_left).await;
    let free = json!({"metadata": {"finalizers": null}});
    world
        .server
        .merge_patch("services", "default", "a", &free)
        .unwrap();
    world.until(empty, SetOutcome::is_gone).await;
    for resource in ["configmaps", "services", "deployments.apps", "jobs.batch"] {
        assert_eq!(world.children(resource), Vec::<String>::new(), "{resource}");
    }
    for _ in 0..100 {
        if pods(&world).await == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{} Pods are left", pods(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_could_lose_children_is_refused() {
    let world = World::new().await;
    let mut undeclared = DesiredSet::new(&world.owner, LABEL).owns::<ConfigMap>();
    undeclared.add(Child::of(&service("a")));
    let mut twice = world.set();
    twice.add(Child::of(&config("a")));
    twice.add(Child::of(&config("a")));
    let ghost = ConfigMap {
        metadata: ObjectMeta {
            uid: None,
            ..world.owner.metadata.clone()
        },
        ..ConfigMap::default()
    };
    let before = world.requests().len();
    let undeclared = undeclared.apply(&world.client).await.unwrap_err();
    assert!(
        matches!(undeclared, Error::KindNotDeclared { .. }),
        "{undeclared}"
    );
    let twice = twice.apply(&world.client).await.unwrap_err();
    assert!(
        matches!(&twice, Error::Twice { key: found, .. } if *found == key("a")),
        "{twice}"
    );
    let ghost = DesiredSet::new(&ghost, LABEL).apply(&world.client).await;
    assert!(matches!(ghost, Err(Error::Owner(_))), "{ghost:?}");
    assert_eq!(world.requests().len(), before);
}
