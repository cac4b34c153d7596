//! Panics and hangs cost their own request, and nothing fails in silence.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_controller::{
    Action, Context, Controller, ControllerError, Error, Request, handler, predicate, reconcile,
};
use steersman_object::ObjectKey;

use crate::world::{World, record};

const LABELS: &str = r#"controller="deployment""#;

// Scenario: the reconcile of one key panics. CTRL-2
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

// Scenario: the reconcile of one key never returns.
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
    assert_eq!(world.metric("reconcile_timeouts_total", LABELS), "1");
}

// CTRL-3
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_mapping_function_ends_the_controller_with_its_name_on_it() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::mapped(|config: &ConfigMap| {
            assert!(config.data.is_some(), "a config without data");
            [ObjectKey::namespaced("default", "web")]
        }))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    world.deploy("web");
    assert_eq!(runs.next().await, "web");
    world.own("empty", &[]);
    let error = running.await.unwrap().unwrap_err();
    assert!(error.is_panic());
    let text = error.to_string();
    for part in [
        "\"deployment\"",
        "ConfigMap",
        "default/empty",
        "a config without data",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_predicate_ends_only_its_own_controller() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let bad = Controller::builder::<Deployment>()
        .name("bad")
        .for_filter(predicate::object(|_: &Deployment| panic!("cannot tell")))
        .build(record().0.reconciler())
        .unwrap();
    let good = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    let bad = world.start(bad);
    let good = world.start(good);
    let error = bad.await.unwrap().unwrap_err();
    assert!(
        matches!(error, ControllerError::HandlerPanicked { .. }),
        "{error}"
    );
    assert_eq!(runs.rest().await, ["web"]);
    assert!(!good.is_finished());
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
