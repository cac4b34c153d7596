//! Settings that controllers get from their surroundings, and the limit that they share.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use steersman_controller::{
    Action, Context, Controller, ControllerDefaults, ControllerSettings, Error, ReconcileLimit,
    Reconciler, Request, limiter, reconcile,
};
use tokio::sync::Semaphore;

use crate::world::{Record, World, record};

/// Returns a controller with `workers` workers. It notes its name for each reconcile, and counts the reconciles in
/// `running`; the maximum is over all controllers that share `running`.
fn crowded(name: &'static str, workers: usize, note: &Record, running: &Running) -> Controller {
    let (note, running) = (note.clone(), running.clone());
    let reconciler = reconcile::from_fn(move |_: Context, _: Request| {
        let (note, running) = (note.clone(), running.clone());
        async move {
            let now = running.now.fetch_add(1, Ordering::SeqCst) + 1;
            running.most.fetch_max(now, Ordering::SeqCst);
            note.note(&name);
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Error>(Action::done())
        }
    });
    Controller::builder::<Deployment>()
        .name(name)
        .max_concurrent_reconciles(workers)
        .build(reconciler)
        .unwrap()
}

#[derive(Clone, Default)]
struct Running {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

fn limited(permits: usize) -> ControllerDefaults {
    let permits = NonZeroUsize::new(permits).unwrap();
    ControllerDefaults::new().reconcile_limit(ReconcileLimit::new(permits))
}

// CTRL-10: a controller with many workers does not keep one with few workers from its turns.
#[tokio::test(start_paused = true)]
async fn controllers_share_a_limit_and_take_turns() {
    let mut world = World::new();
    for number in 0..20 {
        world.deploy(&format!("web-{number}"));
    }
    world.defaults = limited(2);
    let (note, mut runs) = record();
    let running = Running::default();
    world.start(crowded("many", 16, &note, &running));
    world.start(crowded("few", 1, &note, &running));
    let seen = runs.rest().await;
    assert_eq!((seen.len(), running.most.load(Ordering::SeqCst)), (40, 2));
    let of_few = seen.iter().enumerate().filter(|(_, name)| *name == "few");
    let at: Vec<usize> = of_few.map(|(at, _)| at).collect();
    // The controller with few workers waits for one or two permits of the others at most, except for its first permit.
    let longest = at.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(at[0] <= 4 && longest <= Some(4), "{at:?}");
    let label = "controller=\"few\"";
    let series = |metric: &str| world.series(&format!("steersman_controller_{metric}{{{label}}} "));
    assert_eq!(series("reconcile_limit"), "2");
    assert_eq!(series("permit_waiting"), "0");
    assert_eq!(series("permit_wait_seconds_count"), "20");
}

// CTRL-10: a worker that waits for a permit does not delay the stop of its controller.
#[tokio::test(start_paused = true)]
async fn a_controller_that_waits_for_a_permit_stops_at_once() {
    let mut world = World::new();
    world.deploy("web");
    world.defaults = limited(1);
    let (note, mut runs) = record();
    let held = Arc::new(Semaphore::new(0));
    let holding = |name: &'static str| {
        let (note, held) = (note.clone(), Arc::clone(&held));
        let reconciler = reconcile::from_fn(move |_: Context, _: Request| {
            let (note, held) = (note.clone(), Arc::clone(&held));
            async move {
                note.note(&name);
                held.acquire().await?.forget();
                Ok::<_, Error>(Action::done())
            }
        });
        let builder = Controller::builder::<Deployment>().name(name);
        builder.build(reconciler).unwrap()
    };
    let first = world.start(holding("first"));
    assert_eq!(runs.next().await, "first");
    let all = world.cancel.clone();
    world.cancel = all.child_token();
    let second = world.start(holding("second"));
    assert!(runs.rest().await.is_empty());
    world.cancel.cancel();
    second.await.unwrap().unwrap();
    assert!(!first.is_finished());
    held.add_permits(1);
    all.cancel();
    first.await.unwrap().unwrap();
}

// CTRL-11
#[tokio::test(start_paused = true)]
async fn settings_by_name_replace_those_of_the_code() {
    let mut world = World::new();
    world.deploy("web");
    let every = ControllerSettings::new().backoff(Duration::from_secs(7), Duration::from_secs(7));
    let named = ControllerSettings::new()
        .max_concurrent_reconciles(5)
        .backoff(Duration::from_secs(60), Duration::from_secs(3600));
    world.defaults = ControllerDefaults::new().every(every).named("named", named);
    for (name, in_code, delays) in [
        ("named", true, [60_000, 120_000]),
        ("coded", true, [1000, 2000]),
        ("open", false, [7000, 7000]),
    ] {
        let (note, mut runs) = record();
        let mut builder = Controller::builder::<Deployment>()
            .name(name)
            .max_concurrent_reconciles(3);
        if in_code {
            let second = Duration::from_secs(1);
            builder = builder.rate_limiter(limiter::Exponential::new(second, second * 3600));
        }
        let _controller = world.start(builder.build(failing(note)).unwrap());
        let first = runs.next_at().await.1;
        let second = runs.next_at().await.1;
        let third = runs.next_at().await.1;
        assert_eq!([second - first, third - second], delays, "{name}");
        let workers = world.metric(
            "max_concurrent_reconciles",
            &format!("controller=\"{name}\""),
        );
        assert_eq!(workers, if name == "named" { "5" } else { "3" });
    }
}

fn failing(note: Record) -> impl Reconciler {
    reconcile::from_fn(move |_: Context, request: Request| {
        note.note(&request);
        std::future::ready(Err::<Action, _>(Error::msg("not yet")))
    })
}
