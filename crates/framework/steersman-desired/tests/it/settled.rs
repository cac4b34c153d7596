//! Tests SET-5: a set without changes sends nothing, and drift is corrected.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::faults::{Answer, RequestRecord, Verb};
use steersman_cache::CacheOptions;
use steersman_client::ClientOptions;
use steersman_desired::{Child, ChildState, DesiredSet, Readiness, SetOutcome};

use crate::world::{World, config, deployment, key, service};

fn site(world: &World) -> DesiredSet {
    let mut set = world.set();
    set.add(Child::of(&config("site")));
    set.add(Child::of(&service("site")));
    set.add(Child::of(&deployment("site")));
    set
}

/// SET-5: an unchanged set sends no request.
#[tokio::test(start_paused = true)]
async fn a_settled_set_sends_no_request() {
    let world = World::new().await;
    let mut set = world.set();
    set.add(Child::of(&config("site")));
    let servers = set.add(Child::of(&deployment("site")));
    let outcome = world.apply(set).await;
    let created = outcome.child(servers).unwrap();
    assert!(
        matches!(created.state, ChildState::Applied { created: true }),
        "{created:?}"
    );
    assert!(
        matches!(created.readiness, Some(Readiness::InProgress(_))),
        "{created:?}"
    );
    assert!(!outcome.is_ready() && outcome.object(servers).is_some());

    let is_settled = |outcome: &SetOutcome| {
        let mut states = outcome.children().iter().map(|child| &child.state);
        outcome.is_ready() && states.all(|state| matches!(state, ChildState::Unchanged))
    };
    world.until(site, is_settled).await;
    let before = world.requests().len();
    for _ in 0..3 {
        let outcome = world.apply(site(&world)).await;
        assert!(is_settled(&outcome), "{outcome:?}");
    }
    assert_eq!(world.requests().len(), before);
}

#[tokio::test(start_paused = true)]
async fn drift_is_corrected_and_a_deleted_child_comes_back() {
    let world = World::new().await;
    world.until(site, SetOutcome::is_ready).await;
    let drift = json!({"data": {"k": "drifted"}});
    world
        .server
        .merge_patch("configmaps", "default", "site", &drift)
        .unwrap();
    world.server.delete("services", "default", "site").unwrap();
    let is_corrected = |_: &SetOutcome| {
        let config = world.get("configmaps", "site").unwrap();
        config["data"]["k"] == "v" && world.get("services", "site").is_some()
    };
    world.until(site, is_corrected).await;
    // Fields of other managers stay, and cause no request (CLIENT-12).
    let theirs = json!({"metadata": {"annotations": {"theirs": "1"}}});
    world
        .server
        .merge_patch("configmaps", "default", "site", &theirs)
        .unwrap();
    let config = world.get("configmaps", "site").unwrap();
    assert_eq!(config["metadata"]["annotations"]["theirs"], "1");
    let before = world.requests().len();
    let version = config["metadata"]["resourceVersion"].as_str();
    loop {
        let _ = world.apply(site(&world)).await;
        let cached = world.client.get::<ConfigMap>(&key("site")).await.unwrap();
        if cached.metadata.resource_version.as_deref() == version {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = world.apply(site(&world)).await;
    assert_eq!(world.requests().len(), before);
}

/// CLIENT-12: the decision depends on the object on the server, not on what this process has sent.
#[tokio::test(start_paused = true)]
async fn a_restarted_program_sends_nothing_for_a_settled_set() {
    let world = World::new().await;
    world.until(site, SetOutcome::is_ready).await;
    let (server, owner) = (world.server.clone(), world.owner.clone());
    drop(world);
    let restart = || {
        let (cache, client) = (CacheOptions::new(), ClientOptions::new());
        World::over(server.clone(), owner.clone(), cache, client)
    };
    let world = restart().await;
    let before = world.requests().len();
    let outcome = world.apply(site(&world)).await;
    let mut states = outcome.children().iter().map(|child| &child.state);
    assert!(
        states.all(|state| matches!(state, ChildState::Unchanged)),
        "{outcome:?}"
    );
    assert_eq!(world.requests().len(), before);
    drop(world);
    // Drift that happened while no program ran is corrected, even if another manager owns the field.
    let scaled = json!({"spec": {"replicas": 5}});
    server
        .merge_patch("deployments.apps", "default", "site", &scaled)
        .unwrap();
    let world = restart().await;
    let outcome = world.apply(site(&world)).await;
    let states: Vec<&ChildState> = outcome
        .children()
        .iter()
        .map(|child| &child.state)
        .collect();
    let [
        ChildState::Unchanged,
        ChildState::Unchanged,
        ChildState::Applied { created: false },
    ] = states[..]
    else {
        panic!("{outcome:?}");
    };
    assert_ne!(
        world.get("deployments.apps", "site").unwrap()["spec"]["replicas"],
        5
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_gets_the_owner_the_label_and_the_namespace() {
    let world = World::new().await;
    let _ = world.apply(site(&world)).await;
    let service = world.get("services", "site").unwrap();
    let uid = world.owner.metadata.uid.clone().unwrap();
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], *uid);
    assert_eq!(
        service["metadata"]["ownerReferences"][0]["controller"],
        true
    );
    assert_eq!(service["metadata"]["labels"][crate::world::LABEL], *uid);
}

#[tokio::test(start_paused = true)]
async fn children_are_applied_several_at_once_and_no_more() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use steersman_client::{ClientOptions, Write, WriteObserver, WriteOutcome};

    #[derive(Default)]
    struct InFlight {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl WriteObserver for InFlight {
        fn began(&self, _: &Write) {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
        }

        fn ended(&self, _: &Write, _: &WriteOutcome<'_>) {
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    let in_flight = Arc::new(InFlight::default());
    let options =
        ClientOptions::new().observe_writes(Arc::clone(&in_flight) as Arc<dyn WriteObserver>);
    let world = World::with(Default::default(), options).await;
    let second = Duration::from_secs(1);
    let _slow = world
        .server
        .faults()
        .delay(Verb::Patch, "configmaps", second);
    let mut set = world.set().at_once(3);
    for number in 0..10 {
        set.add(Child::of(&config(&format!("c{number}"))));
    }
    let outcome = world.apply(set).await;
    assert!(outcome.is_ready(), "{outcome:?}");
    assert_eq!(in_flight.most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_child_of_a_kind_known_at_run_time_is_applied_too() {
    use kube_core::DynamicObject;

    let world = World::new().await;
    let kind = steersman_object::Kind::of::<ConfigMap>();
    let part = json!({"metadata": {"name": "dynamic"}, "data": {"k": "1"}});
    let mut set = world.set();
    let child = set.add(
        Child::<DynamicObject>::of_kind(&kind, &part)
            .ready_when(|object| object.data["data"]["k"] == "1"),
    );
    let outcome = world.apply(set).await;
    assert!(outcome.is_child_ready(child), "{outcome:?}");
    let object = outcome.object(child).unwrap();
    assert_eq!(object.metadata.name.as_deref(), Some("dynamic"));
    assert_eq!(outcome.children()[0].key, key("dynamic"));
}

/// A reconciler can read the state of a child, such as the address of a Service, even if applying the child fails.
#[tokio::test(start_paused = true)]
async fn the_object_of_a_child_that_fails_is_its_last_known_state() {
    let world = World::new().await;
    world.until(site, SetOutcome::is_ready).await;
    let refused = |request: &RequestRecord| request.does(Verb::Patch);
    let faults = world.server.faults();
    let _fault = faults.answer_matching(refused, Answer::code(403));
    let mut set = world.set();
    let mut changed = config("site");
    changed.data = Some([("k".to_owned(), "other".to_owned())].into());
    let kept = set.add(Child::of(&changed));
    let new = set.add(Child::of(&config("new")));
    let outcome = world.apply(set).await;
    for child in outcome.children().iter().filter(|child| !child.pruned) {
        assert!(matches!(child.state, ChildState::Failed(_)), "{child:?}");
    }
    let object = outcome.object(kept).unwrap();
    assert_eq!(object.data, config("site").data);
    assert!(outcome.object(new).is_none());
}
