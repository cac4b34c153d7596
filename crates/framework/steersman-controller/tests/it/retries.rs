//! When a failed request and a successful request run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use steersman_apiserver::faults::{Answer, RequestRecord, Verb};
use steersman_controller::{
    Action, Context, Controller, ControllerSettings, Error, ReconcileResult, Request, limiter,
    reconcile,
};
use steersman_testenv::log::capture;

use crate::world::{HOUR, World, record};

const LABELS: &str = r#"controller="deployment""#;

// WQ-11: an event during a pending retry runs at once, costs no attempt and keeps the deadline of the retry.
#[tokio::test(start_paused = true)]
async fn an_event_before_a_retry_keeps_its_deadline_and_costs_no_attempt() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&format!("{} {}", ctx.attempt(), ctx.reason()));
        std::future::ready(Err(Error::msg("not yet")))
    });
    let controller = Controller::builder::<Deployment>()
        .rate_limiter(limiter::FastSlow::new(
            Duration::from_secs(600),
            Duration::from_secs(600),
            0,
        ))
        .build(reconciler)
        .unwrap();
    let status = controller.status();
    assert!(status.recent().is_empty());
    world.start(controller);
    assert_eq!(runs.next_at().await, ("0 the initial list".to_owned(), 0));
    for replicas in 2..5 {
        tokio::time::sleep(Duration::from_secs(100)).await;
        world.scale("web", replicas);
        let (text, at) = runs.next_at().await;
        assert_eq!(text, "1 Deployment.v1.apps default/web was updated");
        assert_eq!(at / 1000, 100 * (u128::from(replicas.unsigned_abs()) - 1));
    }
    let (text, at) = runs.next_at().await;
    assert_eq!((text.as_str(), at / 1000), ("1 retry 1", 600));
    let (text, at) = runs.next_at().await;
    assert_eq!((text.as_str(), at / 1000), ("2 retry 2", 1200));
    // The status shows the same reconciles; the last run may not have ended.
    let recent = status.recent();
    let retry = &recent[4];
    assert_eq!((retry.id, retry.attempt), (5, 1), "{retry:?}");
    assert_eq!(retry.request, "default/web");
    assert_eq!(retry.reason, "retry 1");
    assert_eq!(retry.result, ReconcileResult::Failed("not yet".to_owned()));
    assert_eq!(retry.next_in, Some(Duration::from_secs(600)));
}

// WQ-12: a reconcile that writes its status and then fails is retried with backoff, without any declaration.
#[tokio::test(start_paused = true)]
async fn a_status_written_before_each_failure_causes_a_bounded_number_of_runs() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let round = Arc::new(AtomicU32::new(0));
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let (round, note) = (Arc::clone(&round), note.clone());
        async move {
            note.note(&ctx.attempt());
            let round = round.fetch_add(1, Ordering::SeqCst);
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
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut attempts = vec![0_u32; 12];
    loop {
        let attempt: usize = runs.next().await.parse().unwrap();
        match attempts.get_mut(attempt) {
            Some(count) => *count += 1,
            None => break,
        }
    }
    // The pauses before a retry double, as the delays of the retries do.
    assert!(
        attempts.iter().zip(3..).all(|(count, most)| *count <= most),
        "{attempts:?}"
    );
}

// CTRL-21
#[tokio::test(start_paused = true)]
async fn a_request_is_given_up_after_its_last_retry_until_something_changes() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&format!("{} {}", ctx.attempt(), ctx.is_last_attempt()));
        std::future::ready(Err(Error::msg("never")))
    });
    let controller = Controller::builder::<Deployment>()
        .max_retries(2)
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let cycle = ["0 false", "1 false", "2 true"];
    assert_eq!(runs.rest().await, cycle);
    world.scale("web", 2);
    assert_eq!(runs.rest().await, cycle, "an event begins with new retries");
    assert_eq!(
        world.series(&format!("steersman_controller_gave_up_total{{{LABELS}}} ")),
        "2"
    );
    let text = log.text();
    let last = text
        .lines()
        .filter(|line| line.contains("last_attempt=true"));
    assert_eq!(last.count(), 2, "{text}");
}

// CTRL-21, WQ-11: events before the last retry do not take its turn.
#[tokio::test(start_paused = true)]
async fn an_event_before_the_last_retry_is_not_the_last_attempt() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&format!("{} {}", ctx.attempt(), ctx.is_last_attempt()));
        std::future::ready(Err(Error::msg("never")))
    });
    let wait = Duration::from_secs(60);
    let controller = Controller::builder::<Deployment>()
        .max_retries(1)
        .rate_limiter(limiter::FastSlow::new(wait, wait, 0))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "0 false");
    world.scale("web", 2);
    assert_eq!(runs.next().await, "1 false");
    assert_eq!(runs.rest().await, ["1 true"]);

    let mut world = World::new();
    world.deploy("web");
    let every = ControllerSettings::new().max_retries(0);
    world.defaults = world.defaults.clone().every(every);
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&ctx.is_last_attempt());
        std::future::ready(Err(Error::msg("never")))
    });
    let controller = Controller::builder::<Deployment>();
    world.start(controller.build(reconciler).unwrap());
    assert_eq!(runs.rest().await, ["true"], "zero is no retry");
}

// CTRL-22
#[tokio::test(start_paused = true)]
async fn an_object_runs_again_within_the_interval_as_long_as_it_exists() {
    let mut world = World::new();
    for name in ["done", "fails", "waits"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        let name = request.key.name();
        note.note(&name);
        std::future::ready(match name {
            "fails" => Err(Error::msg("for good").terminal()),
            "waits" => Ok(Action::requeue_after(24 * HOUR)),
            _ => Ok(Action::done()),
        })
    });
    let controller = Controller::builder::<Deployment>()
        .at_least_every(10 * HOUR)
        .build(reconciler)
        .unwrap();
    world.start(controller);
    for name in ["done", "fails", "waits"] {
        assert_eq!(runs.next().await, name);
    }
    let hour = u128::from(HOUR.as_secs()) * 1000;
    for round in 1..4 {
        let mut names = Vec::new();
        let mut times = Vec::new();
        for _ in 0..3 {
            let (name, at) = runs.next_at().await;
            assert!((9 * round * hour..=10 * round * hour).contains(&at), "{at}");
            names.push(name);
            times.push(at);
        }
        names.sort();
        assert_eq!(names, ["done", "fails", "waits"], "round {round}");
        times.dedup();
        assert!(
            times.len() > 1,
            "the objects of one start do not stay together"
        );
    }
    for name in ["done", "fails", "waits"] {
        world
            .server
            .delete("deployments.apps", "default", name)
            .unwrap();
        assert_eq!(runs.next().await, name);
    }
    // `rest` waits for an hour of quiet, so the longest interval is waited for here.
    tokio::time::sleep(48 * HOUR).await;
    let late = runs.rest().await;
    let is_asked_for = !late.is_empty() && late.iter().all(|name| name == "waits");
    assert!(
        is_asked_for,
        "only what the reconciler itself asked for: {late:?}"
    );
}

// CTRL-23
#[tokio::test(start_paused = true)]
async fn a_failure_is_written_into_the_status_whatever_kind_of_failure_it_is() {
    let mut world = World::new();
    for name in ["error", "gone", "hang", "ok", "panic"] {
        world.deploy(name);
    }
    let server = world.server.clone();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let (note, server) = (note.clone(), server.clone());
        async move {
            let name = request.key.name().to_owned();
            if ctx.attempt() > 0 {
                note.note(&name);
                return Ok(Action::done());
            }
            match &*name {
                "error" => Err(Error::msg("no such image")),
                "gone" => {
                    let deleted = server.delete("deployments.apps", "default", "gone");
                    deleted.map_err(|status| Error::msg(format!("{status:?}")))?;
                    Err(Error::msg("it is gone"))
                }
                "hang" => std::future::pending().await,
                "panic" => panic!("a bug"),
                _ => Ok(Action::done()),
            }
        }
    });
    let controller = Controller::builder::<Deployment>()
        .max_concurrent_reconciles(5)
        .deadline(Duration::from_secs(10))
        .on_error(|ctx, error, site| {
            let status = site.status.get_or_insert_default();
            let conditions = status.conditions.get_or_insert_default();
            conditions.push(DeploymentCondition {
                type_: "Synced".to_owned(),
                status: "False".to_owned(),
                reason: Some(ctx.is_last_attempt().to_string()),
                message: Some(error.chain()),
                ..DeploymentCondition::default()
            });
        })
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut retried = runs.rest().await;
    retried.sort();
    retried.dedup();
    assert_eq!(retried, ["error", "gone", "hang", "panic"]);
    let message = |name: &str| {
        let object = world
            .server
            .get("deployments.apps", "default", name)
            .unwrap();
        object["status"]["conditions"][0]["message"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(message("error").as_deref(), Some("no such image"));
    assert_eq!(
        message("panic").as_deref(),
        Some("the reconcile panicked: a bug")
    );
    assert_eq!(
        message("hang").as_deref(),
        Some("the reconcile was dropped past its deadline")
    );
    assert_eq!(message("ok"), None);
    assert_eq!(world.metric("reconcile_errors_total", LABELS), "4");
}

// CTRL-23
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_is_refused_changes_no_result() {
    let log = capture();
    let mut world = World::new();
    for name in ["panics", "refused"] {
        world.deploy(name);
    }
    let server = world.server.clone();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        note.note(&format!("{} {}", request.key.name(), ctx.attempt()));
        std::future::ready(match ctx.attempt() {
            0 => Err(Error::msg("once")),
            _ => Ok(Action::done()),
        })
    });
    let controller = Controller::builder::<Deployment>()
        .on_error(move |_, _, site| {
            assert!(site.metadata.name.as_deref() != Some("panics"), "no status");
            let refusal = Answer::code(403);
            let patches = |request: &RequestRecord| request.does(Verb::Patch);
            server.faults().answer_matching(patches, refusal).keep();
            site.status.get_or_insert_default().replicas = Some(7);
        })
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut seen = runs.rest().await;
    seen.sort();
    assert_eq!(seen, ["panics 0", "panics 1", "refused 0", "refused 1"]);
    let text = log.text();
    assert!(text.contains("the hook for errors panicked"), "{text}");
    assert!(text.contains("cannot be written into the status"), "{text}");
}

// WQ-13
#[tokio::test(start_paused = true)]
async fn a_request_runs_as_often_as_its_limit_allows() {
    let mut world = World::new();
    world.deploy("busy");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .at_most(2, Duration::from_secs(3))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let mut at = Vec::new();
    for replicas in 2..40 {
        world.scale("busy", replicas);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    world.deploy("calm");
    loop {
        let (name, millis) = runs.next_at().await;
        if name == "calm" {
            break;
        }
        at.push(millis);
    }
    assert!(
        at.windows(3).all(|three| three[2] - three[0] >= 3000),
        "{at:?}"
    );
    assert!((8..=9).contains(&at.len()), "{at:?}");
}
