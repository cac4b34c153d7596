//! Controllers that trigger themselves are counted and named.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, reconcile};
use steersman_testenv::log::capture;

use crate::world::{Record, World, record};

const COUNT: &str = r#"steersman_controller_self_triggered_total{controller="deployment"} "#;

/// Writes another status in each of the first `rounds` runs, and returns the action of `next`.
fn writes_its_status(
    note: Record,
    rounds: i64,
    next: impl Fn() -> Action + Send + Sync + 'static,
) -> impl Reconciler {
    let round = Arc::new(AtomicI64::new(0));
    let next = Arc::new(next);
    reconcile::from_fn(move |ctx: Context, request: Request| {
        let (round, note, next) = (Arc::clone(&round), note.clone(), Arc::clone(&next));
        async move {
            let round = round.fetch_add(1, Ordering::SeqCst);
            note.note(&round);
            if round < rounds {
                let site = ctx.client().get::<Deployment>(&request.key).await?;
                let write = |site: &mut Deployment| {
                    // The server does not store a generation of zero.
                    site.status.get_or_insert_default().observed_generation = Some(round + 1);
                };
                ctx.client().status().modify(&*site, write).await?;
            }
            Ok::<_, Error>(next())
        }
    })
}

// CTRL-24
#[tokio::test(start_paused = true)]
async fn a_loop_is_counted_and_one_warning_names_the_object_and_the_field() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(writes_its_status(note, 50, Action::done))
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 51);
    assert_eq!(world.series(COUNT), "40");
    let text = log.text();
    let warnings: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("the controller triggers itself"))
        .collect();
    assert_eq!(warnings.len(), 1, "{text}");
    for part in [
        "WARN",
        "controller=\"deployment\"",
        "object=default/web",
        "kind=Deployment.v1.apps",
        "fields=\"status.observedGeneration\"",
        "runs=10",
    ] {
        assert!(
            warnings[0].contains(part),
            "{part:?} is not in {}",
            warnings[0]
        );
    }
}

// CTRL-24
#[tokio::test(start_paused = true)]
async fn steps_timers_and_other_writers_are_no_loop() {
    let log = capture();
    // A reconcile that converges in nine steps.
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(writes_its_status(note, 9, Action::done))
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 10);
    assert_eq!(world.series(COUNT), "0");

    // A reconcile that writes the time into the status each minute. The event of each write is filtered.
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let each_minute = || Action::requeue_after(Duration::from_secs(60));
    let controller = Controller::builder::<Deployment>()
        .with_predicates(steersman_controller::predicate::generation_changed())
        .build(writes_its_status(note, 30, each_minute))
        .unwrap();
    world.start(controller);
    for _ in 0..30 {
        runs.next().await;
    }
    assert_eq!(world.series(COUNT), "0");

    // A reconcile that writes the status after each change by a user.
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .with_predicates(steersman_controller::predicate::generation_changed())
        .build(writes_its_status(note, 100, Action::done))
        .unwrap();
    world.start(controller);
    runs.next().await;
    for replicas in 2..40 {
        world.scale("web", replicas);
        runs.next().await;
    }
    assert_eq!(world.series(COUNT), "0");
    assert!(!log.text().contains("triggers itself"));
}
