//! A panic or a hang costs only its own request, and every failure is logged.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use steersman_controller::{
    Action, Context, Controller, ControllerError, Error, RateLimiter, Request, Watch, handler,
    predicate, reconcile,
};
use steersman_object::ObjectKey;
use steersman_testenv::log::capture;

use crate::world::{World, record};

const LABELS: &str = r#"controller="deployment""#;

// CTRL-2: the reconcile of one key panics.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_own_key_and_is_retried_with_backoff() {
    let mut world = World::new();
    for name in ["bad", "good"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        note.note(&format!("{} {}", request.key.name(), ctx.attempt()));
        assert!(
            request.key.name() == "good" || ctx.attempt() == 3,
            "it is bad"
        );
        std::future::ready(Ok::<_, Error>(Action::done()))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    let running = world.start(controller);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(runs.next_at().await);
    }
    let bad: Vec<_> = seen
        .iter()
        .filter(|(text, _)| text.starts_with("bad"))
        .collect();
    let times: Vec<u128> = bad.iter().map(|(_, at)| *at).collect();
    assert_eq!(bad.len(), 4);
    assert!(
        times[1] - times[0] >= 5 && times[2] - times[1] >= 10 && times[3] - times[2] >= 20,
        "{times:?}"
    );
    assert!(
        seen.iter().any(|(text, at)| text == "good 0" && *at < 5),
        "{seen:?}"
    );
    assert!(runs.rest().await.is_empty());
    assert_eq!(world.metric("reconcile_panics_total", LABELS), "3");
    let success = r#"controller="deployment",result="success""#;
    assert_eq!(world.metric("reconcile_total", success), "2");
    assert!(!running.is_finished());
}

// The reconcile of one key never returns.
#[tokio::test(start_paused = true)]
async fn a_hang_is_cancelled_at_its_deadline_and_dropped_past_the_grace() {
    let mut world = World::new();
    for name in ["deaf", "listens"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            let name = request.key.name().to_owned();
            note.note(&format!("{name} {}", ctx.attempt()));
            if ctx.attempt() > 0 {
                return Ok(Action::done());
            }
            ctx.cancelled().await;
            note.note(&format!("{name} was told"));
            if name == "deaf" {
                std::future::pending::<()>().await;
            }
            Err(Error::msg("out of time"))
        }
    });
    let controller = Controller::builder::<Deployment>()
        .max_concurrent_reconciles(2)
        .deadline(Duration::from_secs(10))
        .deadline_grace(Duration::from_secs(3))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let (text, at) = runs.next_at().await;
        seen.push((text, at / 1000));
    }
    seen.sort();
    let expected = [
        ("deaf 0", 0),
        ("deaf 1", 13),
        ("deaf was told", 10),
        ("listens 0", 0),
        ("listens 1", 10),
        ("listens was told", 10),
    ];
    let seen: Vec<(&str, u128)> = seen.iter().map(|(text, at)| (text.as_str(), *at)).collect();
    assert_eq!(seen, expected);
    assert_eq!(
        world.metric("reconcile_timeouts_total", LABELS),
        "2",
        "every deadline counts, however the reconcile ended after it"
    );
}

// CTRL-25: the reconcile of one key does not return, without a deadline.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_named_once() {
    let log = capture();
    let mut world = World::new();
    for name in ["good", "stuck"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        let note = note.clone();
        async move {
            note.note(&request);
            if request.key.name() == "stuck" {
                std::future::pending::<()>().await;
            }
            Ok::<_, Error>(Action::requeue_after(Duration::from_secs(60)))
        }
    });
    let controller = Controller::builder::<Deployment>()
        .max_concurrent_reconciles(2)
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let overdue = format!("steersman_controller_overdue_reconciles{{{LABELS}}} ");
    for _ in 0..9 {
        runs.next().await;
    }
    assert_eq!(world.series(&overdue), "0");
    for _ in 0..30 {
        runs.next().await;
    }
    assert_eq!(world.series(&overdue), "1");
    let text = log.text();
    let warnings: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("a reconcile takes too long"))
        .collect();
    assert_eq!(warnings.len(), 1, "{text}");
    assert!(warnings[0].contains("request=default/stuck"), "{text}");
}

/// A zero duration disables a limit of a controller, and the maximum never fires.
#[tokio::test(start_paused = true)]
async fn a_zero_duration_disables_a_limit_and_the_maximum_never_fires() {
    for time in [Duration::ZERO, Duration::MAX] {
        let mut world = World::new();
        world.deploy("web");
        let (note, mut runs) = record();
        let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
            let note = note.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                note.note(&format!("{} {}", request.key.name(), ctx.attempt()));
                Ok::<_, Error>(Action::requeue_after(Duration::MAX))
            }
        });
        let controller = Controller::builder::<Deployment>()
            .require_sync(Duration::MAX)
            .deadline(time)
            .deadline_grace(time)
            .build(reconciler)
            .unwrap();
        world.start(controller);
        assert_eq!(runs.next().await, "web 0", "{time:?}");
        assert_eq!(world.metric("reconcile_timeouts_total", LABELS), "0");
    }
}

// CTRL-6
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_mapping_function_costs_its_event() {
    let log = capture();
    let mut world = World::new();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::mapped(|config: &ConfigMap| {
            let name = config.metadata.name.as_deref().unwrap_or_default();
            assert!(!name.starts_with("bad"), "a config called {name}");
            [ObjectKey::namespaced("default", name)]
        }))
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    // A panic on an object that existed before the start does not delay the workers.
    world.own("bad-first", &[]);
    let running = world.start(controller);
    world.deploy("web");
    assert_eq!(runs.next().await, "web");
    assert_eq!(status.handler_panics(), 1);
    world.own("bad", &[]);
    world.own("good", &[]);
    assert_eq!(runs.next().await, "good");
    assert!(runs.rest().await.is_empty());
    assert!(!running.is_finished());

    assert_eq!(status.handler_panics(), 2);
    let last = status.last_handler_panic().unwrap();
    assert_eq!((last.watch, last.key.name()), (1, "bad"));
    assert_eq!(last.kind.gvk().kind(), "ConfigMap");
    assert_eq!(last.message, "a config called bad");
    let counted = |name: &str| {
        let labels = format!(r#"controller="deployment",name="{name}""#);
        world.series(&format!(
            "steersman_controller_handler_panics_total{{{labels}}} "
        ))
    };
    assert_eq!(counted("ConfigMap.v1"), "2");
    assert_eq!(counted("Deployment.v1.apps"), "0");
    let text = log.text();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 2, "{text}");
    for part in [
        "controller=\"deployment\"", "watch=1", "kind=ConfigMap.v1", "object=default/bad ",
        "panic=a config called bad",
    ] {
        assert!(errors[1].contains(part), "{part:?} is not in {}", errors[1]);
    }
}

// CTRL-6
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_predicate_or_a_filter_costs_its_event() {
    let mut world = World::new();
    for name in ["bad", "fails-the-filter", "web"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .with_predicates(predicate::object(|web: &Deployment| {
            assert!(web.metadata.name.as_deref() != Some("bad"), "cannot tell");
            true
        }))
        .with_event_filter(|event| {
            assert!(event.key.name() != "fails-the-filter", "cannot tell either");
            true
        })
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    let running = world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(status.handler_panics(), 2);
    // Every event of this object fails, and no event of other objects.
    world.scale("bad", 2);
    world.scale("web", 2);
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(status.handler_panics(), 3);
    assert!(!running.is_finished());
}

// CTRL-6: an object moves to an owner that cannot be mapped, and the request of its former owner is kept.
#[tokio::test(start_paused = true)]
async fn requests_written_before_a_panic_of_the_handler_are_kept() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let controller = Controller::keyed::<String>("owners")
        .watches::<ConfigMap>(handler::mapped(|config: &ConfigMap| {
            let note = config.metadata.annotations.as_ref();
            let owner = note.and_then(|notes| notes.get("example.com/note"));
            assert!(
                owner.is_none_or(|owner| owner != "no-owner"),
                "this object has no owner"
            );
            [owner.cloned().unwrap_or_default()]
        }))
        .build(reconcile::from_fn(move |_: Context, owner: String| {
            note.note(&owner);
            std::future::ready(Ok::<_, Error>(Action::done()))
        }))
        .unwrap();
    let running = world.start(controller);
    world.own("moves", &[]);
    world.annotate("configmaps", "moves", "first");
    assert!(runs.rest().await.contains(&"first".to_owned()));
    world.annotate("configmaps", "moves", "no-owner");
    assert_eq!(runs.rest().await, ["first"]);
    assert!(!running.is_finished());
}

// CTRL-8
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_rate_limiter_or_the_clock_costs_a_delay() {
    struct Broken;

    impl RateLimiter<Request> for Broken {
        fn delay(&mut self, _: &Request, _: std::time::Instant) -> Duration {
            panic!("no delay")
        }

        fn forget(&mut self, _: &Request) {
            panic!("nothing to forget")
        }

        fn failures(&self, _: &Request) -> u32 {
            panic!("no failures")
        }
    }

    let mut world = World::new();
    world.clock = Some(Arc::new(|| panic!("no time")));
    for name in ["asks-the-clock", "fails", "works"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let name = request.key.name();
        note.note(&format!("{name} {}", ctx.attempt()));
        let first = ctx.attempt() == 0;
        std::future::ready(match name {
            "asks-the-clock" if first => Ok(Action::requeue_at(Timestamp::UNIX_EPOCH)),
            "fails" if first => Err(Error::msg("on purpose")),
            _ => Ok(Action::done()),
        })
    });
    let controller = Controller::builder::<Deployment>()
        .rate_limiter(Broken)
        .build(reconciler)
        .unwrap();
    let running = world.start(controller);
    let mut seen = runs.rest().await;
    seen.sort();
    let expected = [
        "asks-the-clock 0", "asks-the-clock 1", "fails 0", "fails 1", "works 0",
    ];
    assert_eq!(seen, expected);
    assert!(!running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_stream_of_requests_ends_the_controller_by_name() {
    let mut world = World::new();
    let stream = futures::stream::once(async { panic!("no requests") });
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::requests(stream))
        .build(record().0.reconciler())
        .unwrap();
    let error = world.start(controller).await.unwrap().unwrap_err();
    assert!(error.is_panic());
    let text = error.to_string();
    assert!(
        text.contains("\"deployment\"")
            && text.contains("stream of requests panicked: no requests"),
        "{text}"
    );
}

#[test]
fn declarations_that_cannot_work_are_refused() {
    let builder = || Controller::builder::<Deployment>();
    let error = builder()
        .name(" ")
        .build(record().0.reconciler())
        .unwrap_err();
    assert!(matches!(error, ControllerError::EmptyName), "{error}");
    let idle = builder().max_concurrent_reconciles(0);
    let error = idle.build(record().0.reconciler()).unwrap_err();
    assert!(
        error.to_string().contains("max_concurrent_reconciles(0)"),
        "{error}"
    );
    let nothing = Controller::keyed::<Request>("nothing");
    let error = nothing.build(record().0.reconciler()).unwrap_err();
    assert!(error.to_string().contains("\"nothing\""), "{error}");
    let controller = builder()
        .owns::<ConfigMap>()
        .build(record().0.reconciler())
        .unwrap();
    let kinds: Vec<&str> = controller
        .kinds()
        .iter()
        .map(|kind| kind.gvk().kind())
        .collect();
    assert_eq!(
        (controller.name(), kinds),
        ("deployment", vec!["Deployment", "ConfigMap"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_controller_of_one_name_is_refused_at_its_start() {
    let mut world = World::new();
    let controller = || {
        Controller::builder::<Deployment>()
            .build(record().0.reconciler())
            .unwrap()
    };
    let first = world.start(controller());
    let error = world.start(controller()).await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::Metrics { .. }), "{error}");
    assert!(error.to_string().contains("\"deployment\""), "{error}");
    assert!(!first.is_finished());
}
