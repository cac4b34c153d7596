//! Delays, events and backoff in combination.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};

use crate::world::{World, record};

// WQ-4: an event comes after `After(10m)`: the request runs at once, and only the result of that run sets the next
// timer.
#[tokio::test(start_paused = true)]
async fn an_event_absorbs_a_pending_timer_and_the_latest_result_counts() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let round = Arc::new(AtomicU32::new(0));
    let reconciler = reconcile::from_fn(move |_: Context, _: Request| {
        let round = round.fetch_add(1, Ordering::SeqCst);
        note.note(&round);
        std::future::ready(Ok::<_, Error>(match round {
            0 => Action::requeue_after(Duration::from_secs(600)),
            1 => Action::requeue_after(Duration::from_secs(60)),
            2 => Action::requeue_after(Duration::from_secs(1800)),
            _ => Action::done(),
        }))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next_at().await, ("0".into(), 0));
    world.scale("web", 2);
    assert_eq!(runs.next_at().await, ("1".into(), 0), "the event runs now");
    assert_eq!(
        runs.next_at().await,
        ("2".into(), 60_000),
        "the second result's timer"
    );
    world.scale("web", 3);
    assert_eq!(runs.next_at().await, ("3".into(), 60_000));
    assert!(
        runs.rest().await.is_empty(),
        "done means none, whatever was pending before"
    );
}

// CTRL-4: errors back off, success resets, and a reconcile that fails after writing its own status keeps its
// backoff.
#[tokio::test(start_paused = true)]
async fn a_failure_that_wrote_its_own_status_keeps_its_backoff() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let round = Arc::new(AtomicU32::new(0));
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let (round, note) = (Arc::clone(&round), note.clone());
        async move {
            let round = round.fetch_add(1, Ordering::SeqCst);
            note.note(&format!("{round} after {} failures", ctx.attempt()));
            if round >= 6 {
                return Ok(Action::done());
            }
            let site = ctx.client().get::<Deployment>(&request.key).await?;
            let write = |site: &mut Deployment| {
                let status = site.status.get_or_insert_default();
                status.observed_generation = Some(i64::from(round));
            };
            ctx.client().status().modify(&*site, write).await?;
            Err(Error::msg("not ready"))
        }
    });
    let controller = Controller::builder::<Deployment>()
        .sole_status_writer()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut at = Vec::new();
    for round in 0..=6 {
        let (text, millis) = runs.next_at().await;
        assert_eq!(text, format!("{round} after {round} failures"));
        at.push(millis);
    }
    let delays: Vec<u128> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (delay, backoff) in delays.iter().zip([5, 10, 20, 40, 80, 160]) {
        assert!(*delay >= backoff, "{delays:?}");
    }
    assert!(runs.rest().await.is_empty());
    let labels = r#"controller="deployment""#;
    assert_eq!(world.metric("reconcile_errors_total", labels), "6");
}

// CTRL-4: the reconcile fails until another client writes into the status.
#[tokio::test(start_paused = true)]
async fn a_status_written_by_another_client_cuts_a_backoff_short() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            let site = ctx.client().get::<Deployment>(&request.key).await?;
            let ready = site.status.as_ref().and_then(|s| s.ready_replicas);
            note.note(&format!("{ready:?}"));
            match ready {
                Some(1) => Ok(Action::done()),
                _ => Err(Error::msg("not ready")),
            }
        }
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    // The 17th retry waits more than five minutes.
    for _ in 0..17 {
        assert_eq!(runs.next().await, "None");
    }
    let (_, before) = runs.next_at().await;
    let status = json!({"status": {"readyReplicas": 1, "replicas": 1}});
    world
        .server
        .merge_patch("deployments.apps/status", "default", "web", &status)
        .unwrap();
    let (text, after) = runs.next_at().await;
    assert_eq!(text, "Some(1)");
    assert!(after - before < 1000, "{before} to {after}");
}

#[tokio::test(start_paused = true)]
async fn a_users_change_cuts_a_backoff_short_and_success_resets_it() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            let site = ctx.client().get::<Deployment>(&request.key).await?;
            let replicas = site.spec.as_ref().and_then(|spec| spec.replicas);
            note.note(&format!("{replicas:?} {}", ctx.attempt()));
            match replicas {
                Some(1) => Err(Error::msg("one is not enough")),
                _ => Ok(Action::done()),
            }
        }
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    // The 17th retry waits more than five minutes.
    for failures in 0..17 {
        assert_eq!(runs.next().await, format!("Some(1) {failures}"));
    }
    let (_, before) = runs.next_at().await;
    world.scale("web", 2);
    let (text, after) = runs.next_at().await;
    assert_eq!(text, "Some(2) 18");
    assert!(after - before < 1000, "{before} to {after}");
    world.scale("web", 1);
    assert_eq!(
        runs.next().await,
        "Some(1) 0",
        "success forgot the failures"
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried_until_something_changes() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&ctx.attempt());
        std::future::ready(Err(Error::msg("this spec can never work").terminal()))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["0"]);
    world.scale("web", 2);
    assert_eq!(runs.rest().await, ["0"]);
    let labels = r#"controller="deployment""#;
    assert_eq!(world.metric("terminal_reconcile_errors_total", labels), "2");
}

#[tokio::test(start_paused = true)]
async fn requeues_at_a_time_of_day_and_after_the_longest_delay_are_kept() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let round = AtomicU32::new(0);
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&ctx.now().as_second());
        std::future::ready(Ok::<_, Error>(match round.fetch_add(1, Ordering::SeqCst) {
            0 => Action::requeue_at(Timestamp::UNIX_EPOCH + Duration::from_secs(90)),
            1 => Action::requeue_at(Timestamp::UNIX_EPOCH),
            _ => Action::requeue_after(Duration::MAX),
        }))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["0", "90", "90"]);
}
