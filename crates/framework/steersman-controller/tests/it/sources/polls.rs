//! Polls of something outside the cluster, for each object of the primary kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use parking_lot::Mutex;
use steersman_controller::source::{self, Poll, PollResults};
use steersman_controller::{Controller, Error, Watch};
use steersman_object::{Object, ObjectKey};
use steersman_testenv::log::capture;
use tokio::time::Instant;

use crate::world::{Record, World, record};

const EVERY: Duration = Duration::from_secs(60);

/// A service outside the cluster, with the state of each object.
#[derive(Clone, Default)]
struct Outside {
    shared: Arc<Mutex<OutsideState>>,
}

#[derive(Default)]
struct OutsideState {
    states: BTreeMap<String, String>,
    /// The names of the calls, with the time of each call.
    calls: Vec<(String, Instant)>,
    open: usize,
    most_open: usize,
}

impl Outside {
    fn set(&self, name: &str, state: &str) {
        self.shared
            .lock()
            .states
            .insert(name.to_owned(), state.to_owned());
    }

    /// Returns the number of calls for an object since the previous question.
    fn calls(&self, name: &str) -> usize {
        let mut shared = self.shared.lock();
        let before = shared.calls.len();
        shared.calls.retain(|(called, _)| called != name);
        before - shared.calls.len()
    }

    /// Returns a poll of the states of this service.
    fn poll(&self, every: Duration) -> Poll<Deployment, String> {
        let outside = self.clone();
        source::poll(every, move |object| outside.clone().ask(object))
    }

    async fn ask(self, object: Arc<Deployment>) -> Result<String, Error> {
        let name = object.key().name().to_owned();
        let state = {
            let mut shared = self.shared.lock();
            shared.calls.push((name.clone(), Instant::now()));
            shared.open += 1;
            shared.most_open = shared.most_open.max(shared.open);
            shared.states.get(&name).cloned()
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.shared.lock().open -= 1;
        match state.as_deref() {
            None => Err(Error::msg(format_args!("{name} is unknown"))),
            Some("panic") => panic!("{name} is cursed"),
            Some("hang") => std::future::pending().await,
            Some(state) => Ok(state.to_owned()),
        }
    }
}

/// Builds a controller that polls the service, and returns it with the results of the poll.
fn polling(poll: Poll<Deployment, String>, note: Record) -> (Controller, PollResults<String>) {
    let results = poll.results();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::poll(poll))
        .build(note.reconciler())
        .unwrap();
    (controller, results)
}

fn state(results: &PollResults<String>, name: &str) -> Option<String> {
    results.get(&key(name)).as_deref().cloned()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

// SRC-7: a change back to the state of the last call is noticed, and the change of the reconciler is not.
#[tokio::test(start_paused = true)]
async fn a_state_that_the_reconciler_sets_is_what_the_next_call_is_compared_with() {
    let mut world = World::new();
    let outside = Outside::default();
    world.deploy("a");
    outside.set("a", "wanted");
    let (note, mut runs) = record();
    let (controller, results) = polling(outside.poll(EVERY), note);
    // An object without a state gets none.
    assert!(!results.set(&key("a"), "early".to_owned()));
    assert!(results.is_empty());
    world.start(controller);
    runs.rest().await;
    for _ in 0..2 {
        outside.set("a", "drifted");
        assert_eq!(runs.rest().await, ["a"]);
        // The reconciler corrects the state.
        outside.set("a", "wanted");
        assert!(results.set(&key("a"), "wanted".to_owned()));
    }
    assert!(runs.rest().await.is_empty());
    let deployments = "deployments.apps";
    world.server.delete(deployments, "default", "a").unwrap();
    runs.rest().await;
    assert!(!results.set(&key("a"), "late".to_owned()));
    assert!(results.is_empty());
}

// SRC-7
#[tokio::test(start_paused = true)]
async fn a_call_that_began_before_the_reconciler_set_the_state_is_ignored() {
    let mut world = World::new();
    let outside = Outside::default();
    world.deploy("a");
    outside.set("a", "wanted");
    let (note, mut runs) = record();
    let (controller, results) = polling(outside.poll(EVERY), note);
    world.start(controller);
    runs.rest().await;
    outside.set("a", "drifted");
    outside.calls("a");
    while outside.calls("a") == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The call has read the state, and returns it in a second.
    outside.set("a", "wanted");
    assert!(results.set(&key("a"), "wanted".to_owned()));
    assert!(runs.rest().await.is_empty());
    // Later calls are compared with the state that was set.
    outside.set("a", "drifted");
    assert_eq!(runs.rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_requested_when_the_state_outside_changes_and_not_before() {
    let mut world = World::new();
    let outside = Outside::default();
    for name in ["a", "b"] {
        world.deploy(name);
        outside.set(name, "new");
    }
    let (note, mut runs) = record();
    let (controller, results) = polling(outside.poll(EVERY), note);
    world.start(controller);
    // First the objects themselves are requested, then their first states.
    let mut first = runs.rest().await;
    first.sort();
    assert_eq!(first, ["a", "a", "b", "b"]);
    assert_eq!(state(&results, "a"), Some("new".to_owned()));

    assert!(runs.rest().await.is_empty());
    // The calls of two hours without a request: one per jittered minute, each of a second.
    let calls = outside.calls("b");
    assert!((107..=135).contains(&calls), "{calls} calls");
    outside.set("b", "newer");
    assert_eq!(runs.rest().await, ["b"]);
    assert_eq!(state(&results, "b"), Some("newer".to_owned()));
    let changed = r#"steersman_controller_polls_total{controller="deployment",name="Deployment.v1.apps",result="changed"} "#;
    assert_eq!(world.series(changed), "3");
}

// SRC-1: a new spec is polled at once. SRC-2: a deleted object is not polled and has no state.
#[tokio::test(start_paused = true)]
async fn a_changed_object_is_polled_at_once_and_a_deleted_one_is_forgotten() {
    let mut world = World::new();
    let outside = Outside::default();
    world.deploy("web");
    outside.set("web", "1");
    let (note, mut runs) = record();
    let (controller, results) = polling(outside.poll(10 * EVERY), note);
    world.start(controller);
    assert_eq!(
        (runs.next().await, runs.next().await),
        ("web".into(), "web".into())
    );
    assert_eq!(outside.calls("web"), 1);
    world.annotate("deployments.apps", "web", "1");
    assert_eq!(runs.next().await, "web");
    tokio::time::sleep(EVERY).await;
    assert_eq!(outside.calls("web"), 0, "the spec is the same");
    outside.set("web", "2");
    let scaled = Instant::now();
    world.scale("web", 2);
    assert_eq!(
        (runs.next().await, runs.next().await),
        ("web".into(), "web".into())
    );
    assert!(
        scaled.elapsed() < EVERY,
        "long before the interval has passed"
    );
    assert_eq!(outside.calls("web"), 1);
    assert_eq!(state(&results, "web"), Some("2".to_owned()));

    // The change comes during a call.
    world.scale("web", 3);
    assert_eq!(runs.next().await, "web");
    world
        .server
        .delete("deployments.apps", "default", "web")
        .unwrap();
    assert_eq!(
        runs.rest().await,
        ["web"],
        "the delete, and not the state of the call"
    );
    assert!(results.is_empty());
    assert!(outside.calls("web") <= 1);
    world.deploy("web");
    assert_eq!(
        runs.rest().await,
        ["web", "web"],
        "the first state of the new object"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_share_a_bound_and_no_object_is_left_out() {
    let mut world = World::new();
    let outside = Outside::default();
    let names: Vec<String> = (0..20).map(|number| format!("web-{number}")).collect();
    for name in &names {
        world.deploy(name);
        outside.set(name, "new");
    }
    let (note, mut runs) = record();
    let (controller, _) = polling(outside.poll(EVERY).max_concurrent(3), note);
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 2 * names.len());
    assert_eq!(outside.shared.lock().most_open, 3);
    for name in &names {
        assert!(outside.calls(name) > 30, "{name}");
    }
}

// SRC-3: a failing call costs neither the last state of its object nor the calls for other objects.
#[tokio::test(start_paused = true)]
async fn a_failing_poll_keeps_the_last_state_and_is_repeated_with_growing_pauses() {
    let log = capture();
    let mut world = World::new();
    let outside = Outside::default();
    for name in ["good", "fails", "panics", "hangs"] {
        world.deploy(name);
        outside.set(name, "new");
    }
    let (note, mut runs) = record();
    let (controller, results) = polling(outside.poll(EVERY).limit(Duration::from_secs(5)), note);
    let running = world.start(controller);
    assert_eq!(runs.rest().await.len(), 8);
    outside.shared.lock().states.remove("fails");
    outside.set("panics", "panic");
    outside.set("hangs", "hang");
    for name in ["good", "fails", "panics", "hangs"] {
        outside.calls(name);
    }
    assert!(runs.rest().await.is_empty());
    assert!(outside.calls("good") > 50);
    for name in ["fails", "panics", "hangs"] {
        // The pauses are 1, 2, 4, 8, 8, … minutes.
        let calls = outside.calls(name);
        assert!((8..=14).contains(&calls), "{name}: {calls} calls");
        assert_eq!(state(&results, name), Some("new".to_owned()));
    }
    let text = log.text();
    for part in [
        "fails is unknown", "panics is cursed", "the call took more than 5s",
    ] {
        // The failures 1, 2, 4 and 8 are logged.
        let lines = text
            .lines()
            .filter(|line| line.contains("WARN") && line.contains(part));
        assert!((3..=4).contains(&lines.count()), "{part:?} in {text}");
    }
    outside.set("fails", "well again");
    assert_eq!(runs.rest().await, ["fails"]);
    assert!(!running.is_finished());
}
