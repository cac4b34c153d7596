//! Reports of a reconcile: conditions and Kubernetes Events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use steersman_apiserver::faults::Verb;
use steersman_controller::{Action, Context, Controller, Error, reconcile};
use steersman_object::status_conditions::Progress;

use crate::sites::Site;
use crate::world::{World, record};

#[derive(Debug, thiserror::Error)]
#[error("the pages cannot be published")]
struct Outer(#[source] std::io::Error);

fn refused(text: String) -> Error {
    Error::from(Outer(std::io::Error::other(text)))
}

#[tokio::test(start_paused = true)]
async fn an_error_is_an_event_and_a_condition_with_its_causes() {
    let mut world = World::with_sites();
    world.site("retried", &[]);
    world.site("terminal", &[]);
    let (note, mut runs) = record();
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let note = note.clone();
        async move {
            let name = site.metadata.name.clone().unwrap_or_default();
            note.note(&name);
            let mut error = refused("403 Forbidden".to_owned());
            if name == "terminal" {
                error = error.terminal();
            }
            ctx.report_error(&*site, "PublishFailed", &error).await?;
            Err(error)
        }
    });
    let controller = Controller::builder::<Site>()
        .with_predicates(steersman_controller::predicate::generation_changed())
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut seen = Vec::new();
    for _ in 0..8 {
        seen.push(runs.next().await);
    }
    assert_eq!(seen.iter().filter(|name| *name == "terminal").count(), 1);
    let text = "PublishFailed: the pages cannot be published: 403 Forbidden";
    let expected = [
        format!("Ready=False {text}"),
        format!("Reconciling=True {text}"),
    ];
    assert_eq!(world.conditions("retried"), expected);
    let expected = [
        format!("Ready=False {text}"),
        format!("Stalled=True {text}"),
    ];
    assert_eq!(world.conditions("terminal"), expected);
    let events = world.server.list("events.events.k8s.io", "default");
    for name in ["retried", "terminal"] {
        let event = events
            .iter()
            .find(|event| event["regarding"]["name"] == name);
        let event = event.unwrap();
        assert_eq!(event["type"], "Warning");
        assert_eq!(
            event["note"],
            "the pages cannot be published: 403 Forbidden"
        );
    }
    let patches = world.server.requests();
    let of_status =
        patches.count(|r| r.does(Verb::Patch) && r.subresource.as_deref() == Some("status"));
    assert_eq!(of_status, 2, "an unchanged report is not sent again");
}

// CTRL-33: the update of the status requests the object, because no predicate refuses it.
#[tokio::test(start_paused = true)]
async fn an_error_with_another_text_each_time_is_retried_with_backoff() {
    let mut world = World::with_sites();
    world.site("shop", &[]);
    let (note, mut runs) = record();
    let number = Arc::new(AtomicU32::new(0));
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let (note, number) = (note.clone(), Arc::clone(&number));
        async move {
            note.note(&ctx.attempt());
            let error = refused(format!(
                "request {}",
                number.fetch_add(1, Ordering::Relaxed)
            ));
            ctx.report_error(&*site, "PublishFailed", &error).await?;
            Err(error)
        }
    });
    let controller = Controller::builder::<Site>().build(reconciler).unwrap();
    world.start(controller);
    let mut last = 0;
    for _ in 0..24 {
        last = runs.next_at().await.1;
    }
    // 24 runs without backoff take no time at all; some of these runs follow a status write, before a retry (WQ-11).
    assert!(last > 60_000, "{last} ms");
}

// CTRL-33: an error that is not retried has no backoff that would hold back the run that a write of a message causes.
#[tokio::test(start_paused = true)]
async fn an_error_that_is_not_retried_is_not_reported_again_for_its_text_alone() {
    for is_terminal in [true, false] {
        let mut world = World::with_sites();
        world.site("shop", &[]);
        let (note, mut runs) = record();
        let number = Arc::new(AtomicU32::new(0));
        let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
            let (note, number) = (note.clone(), Arc::clone(&number));
            async move {
                let number = number.fetch_add(1, Ordering::Relaxed);
                note.note(&number);
                // Ends a loop, so that the test fails instead of hanging.
                if number == 20 {
                    return Ok(Action::done());
                }
                let mut error = refused(format!("request {number}"));
                if is_terminal {
                    error = error.terminal();
                }
                ctx.report_error(&*site, "PublishFailed", &error).await?;
                Err(error)
            }
        });
        let controller = Controller::builder::<Site>().max_retries(0);
        world.start(controller.build(reconciler).unwrap());
        // The second run is the run that the first report requested.
        assert_eq!(runs.rest().await, ["0", "1"], "terminal: {is_terminal}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_report_sends_nothing_and_keeps_the_time() {
    let mut world = World::with_sites();
    world.site("shop", &[]);
    let (note, mut runs) = record();
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let note = note.clone();
        async move {
            let report = ctx.report(&*site, Progress::Current, "Running", "3 Pods are ready");
            note.note(&report.await?.is_changed());
            Ok(Action::done())
        }
    });
    let controller = Controller::builder::<Site>().build(reconciler).unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "true");
    // The update of the status requests the object once more.
    assert_eq!(runs.next().await, "false");
    assert!(runs.rest().await.is_empty());
    assert_eq!(
        world.conditions("shop"),
        ["Ready=True Running: 3 Pods are ready"]
    );
    let site = world
        .server
        .get("sites.example.com", "default", "shop")
        .unwrap();
    assert_eq!(site["status"]["conditions"][0]["observedGeneration"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_names_the_generation_that_the_reconcile_read() {
    let mut world = World::with_sites();
    world.site("shop", &[]);
    let server = world.server.clone();
    let (note, mut runs) = record();
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let (note, server) = (note.clone(), server.clone());
        async move {
            // A user changes the spec after the cache was read, so that the write has to be repeated.
            server.faults().silence_watches();
            let patch = serde_json::json!({"spec": {"suspend": true}});
            let patched = server.merge_patch("sites.example.com", "default", "shop", &patch);
            patched.map_err(|status| Error::msg(format!("{status:?}")))?;
            let report = ctx.report(&*site, Progress::Current, "Running", "3 Pods are ready");
            note.note(&report.await?.is_changed());
            Ok(Action::done())
        }
    });
    let controller = Controller::builder::<Site>().build(reconciler).unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "true");
    let site = world
        .server
        .get("sites.example.com", "default", "shop")
        .unwrap();
    assert_eq!(site["metadata"]["generation"], 2);
    assert_eq!(site["status"]["conditions"][0]["observedGeneration"], 1);
}

// CTRL-35
#[tokio::test(start_paused = true)]
async fn a_lasting_failure_is_a_condition_and_an_event_and_a_passing_one_is_none() {
    let mut world = World::with_sites();
    let names = ["passing", "lasting", "terminal", "panic", "hang", "gone"];
    for name in names {
        world.site(name, &[]);
    }
    let server = world.server.clone();
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let server = server.clone();
        async move {
            let failed = Err(refused("403 Forbidden".to_owned()));
            match site.metadata.name.as_deref() {
                Some("passing") if ctx.attempt() < 4 => failed,
                Some("lasting") if ctx.attempt() < 8 => failed,
                Some("terminal") => failed.map_err(Error::terminal),
                Some("panic") => panic!("a bug"),
                Some("hang") => std::future::pending().await,
                Some("gone") => {
                    let _ = server.delete("sites.example.com", "default", "gone");
                    failed
                }
                _ => {
                    ctx.report(&*site, Progress::Current, "Running", "it works")
                        .await?;
                    Ok(Action::done())
                }
            }
        }
    });
    let controller = Controller::builder::<Site>()
        .with_predicates(steersman_controller::predicate::generation_changed())
        .deadline(std::time::Duration::from_secs(10))
        .max_retries(9)
        .report_failures()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let text = "the pages cannot be published: 403 Forbidden";
    for (name, condition) in [
        ("passing", "Ready=True Running: it works"),
        ("lasting", "Ready=True Running: it works"),
        ("terminal", &format!("Ready=False ReconcileFailed: {text}")),
        (
            "panic",
            "Ready=False ReconcilePanicked: the reconcile panicked: a bug",
        ),
        (
            "hang",
            "Ready=False ReconcileTimedOut: the reconcile was dropped past its deadline",
        ),
    ] {
        assert_eq!(world.conditions(name), [condition], "{name}");
    }
    let events = world.server.list("events.events.k8s.io", "default");
    let mut noted: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&event["regarding"]["name"]), text(&event["reason"]))
        })
        .collect();
    noted.sort();
    let expected = [
        ("hang", "ReconcileTimedOut"),
        ("lasting", "ReconcileFailed"),
        ("panic", "ReconcilePanicked"),
        ("terminal", "ReconcileFailed"),
    ];
    let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(noted, expected);
}
