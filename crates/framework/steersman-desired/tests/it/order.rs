//! Tests SET-4: a child waits for the children that it needs, and for the end of those that it replaces.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_desired::{AbsentChild, Child, ChildState, DesiredSet, SetOutcome};
use steersman_object::Kind;

use crate::world::{World, config, deployment, job, key, service};

fn migrated(world: &World) -> DesiredSet {
    let mut set = world.set();
    let settings = set.add(Child::of(&config("settings")));
    let migration = set.add(Child::of(&job("migrate")).after(settings));
    let servers = set.add(
        Child::of(&deployment("web"))
            .after(migration)
            .after(settings),
    );
    set.add(Child::of(&service("web")).after(servers));
    set
}

/// SET-4: a child is applied only after the children that it depends on are ready.
#[tokio::test(start_paused = true)]
async fn a_child_is_applied_after_the_children_before_it_are_ready() {
    let world = World::new().await;
    let first = world.apply(migrated(&world)).await;
    let states: Vec<&ChildState> = first.children().iter().map(|child| &child.state).collect();
    // A ConfigMap is ready at once, and a Job when it is complete.
    assert!(
        matches!(states[0], ChildState::Applied { created: true }),
        "{states:?}"
    );
    assert!(
        matches!(states[1], ChildState::Applied { created: true }),
        "{states:?}"
    );
    let ChildState::Waiting { after } = states[2] else {
        panic!("{states:?}");
    };
    assert_eq!(*after, [(first.children()[1].kind.clone(), key("migrate"))]);
    assert!(
        matches!(states[3], ChildState::Waiting { .. }),
        "{states:?}"
    );
    assert!(
        first
            .message()
            .contains("Deployment default/web waits for Job default/migrate")
    );
    assert!(world.get("deployments.apps", "web").is_none());

    let is_started = |outcome: &SetOutcome| {
        let job = world.get("jobs.batch", "migrate").unwrap();
        let is_complete = job["status"]["succeeded"] == 1;
        let exists = world.get("deployments.apps", "web").is_some();
        assert!(is_complete || !exists, "{outcome:?}");
        exists
    };
    world.until(migrated, is_started).await;
    let last = world.outcome_when(migrated, SetOutcome::is_ready).await;
    assert_eq!(last.message(), "4 children are ready");
}

#[tokio::test(start_paused = true)]
async fn ready_when_replaces_the_rules_of_kstatus() {
    let world = World::new().await;
    let gated = |world: &World| {
        let mut set = world.set();
        let is_open = |config: &ConfigMap| {
            let annotations = config.metadata.annotations.as_ref();
            annotations.is_some_and(|annotations| annotations.contains_key("open"))
        };
        let gate = set.add(Child::of(&config("gate")).ready_when(is_open));
        set.add(Child::of(&config("behind")).after(gate));
        set
    };
    let closed = world.apply(gated(&world)).await;
    assert!(!closed.is_ready(), "{closed:?}");
    assert!(
        closed
            .message()
            .contains("ConfigMap default/gate is in progress"),
        "{closed:?}"
    );
    let open = json!({"metadata": {"annotations": {"open": "1"}}});
    world
        .server
        .merge_patch("configmaps", "default", "gate", &open)
        .unwrap();
    world.until(gated, SetOutcome::is_ready).await;
    assert_eq!(world.children("configmaps"), ["behind", "gate"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_child_holds_up_the_children_after_it_and_no_others() {
    let world = World::new().await;
    let refused = steersman_apiserver::faults::Answer::code(500).times(1);
    let _fault = world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", refused);
    let pair = |world: &World| {
        let mut set = world.set();
        let first = set.add(Child::of(&config("first")));
        set.add(Child::of(&deployment("second")).after(first));
        set.add(Child::of(&service("other")));
        set
    };
    let outcome = world.apply(pair(&world)).await;
    assert_eq!(outcome.failures().count(), 1);
    assert!(
        matches!(outcome.children()[1].state, ChildState::Waiting { .. }),
        "{outcome:?}"
    );
    assert!(outcome.children()[2].is_ready(), "{outcome:?}");
    assert!(outcome.into_result().is_err());
    world.until(pair, SetOutcome::is_ready).await;
}

/// SET-4: a finalizer delays the end of the predecessor, and so the start of its successor.
#[tokio::test(start_paused = true)]
async fn a_child_is_applied_after_another_is_gone() {
    let world = World::new().await;
    let before = |world: &World| {
        let mut set = world.set();
        set.add(Child::of(&deployment("blue")));
        set
    };
    world.until(before, SetOutcome::is_ready).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let server = &world.server;
    server
        .merge_patch("deployments.apps", "default", "blue", &hold)
        .unwrap();

    let after = |world: &World| {
        let mut set = world.set();
        let blue = set.add_absent(AbsentChild::<Deployment>::of(key("blue")));
        set.add(Child::of(&deployment("green")).after(blue));
        set
    };
    let is_deleting = |outcome: &SetOutcome| {
        assert!(
            matches!(outcome.children()[1].state, ChildState::Waiting { .. }),
            "{outcome:?}"
        );
        world.get("deployments.apps", "blue").unwrap()["metadata"]["deletionTimestamp"].is_string()
    };
    let deleting = world.outcome_when(after, is_deleting).await;
    assert!(
        matches!(deleting.children()[0].state, ChildState::Deleting),
        "{deleting:?}"
    );
    // With the custom condition, the predecessor counts as gone once it is being deleted.
    let early = |world: &World| {
        let mut set = world.set();
        let is_gone = |left: Option<&Deployment>| {
            left.is_none_or(|left| left.metadata.deletion_timestamp.is_some())
        };
        let blue = AbsentChild::<Deployment>::of(key("blue")).gone_when(is_gone);
        let blue = set.add_absent(blue);
        set.add(Child::of(&config("early")).after(blue));
        set
    };
    world.until(early, SetOutcome::is_ready).await;
    assert!(world.get("configmaps", "early").is_some());

    let free = json!({"metadata": {"finalizers": null}});
    server
        .merge_patch("deployments.apps", "default", "blue", &free)
        .unwrap();
    let last = world.outcome_when(after, SetOutcome::is_ready).await;
    assert!(
        matches!(last.children()[0].state, ChildState::Absent),
        "{last:?}"
    );
    assert_eq!(last.children()[0].kind, Kind::of::<Deployment>());
    assert_eq!(world.children("deployments.apps"), ["green"]);
}
