//! The log lines of a failed reconcile.

use std::io;

use k8s_openapi::api::apps::v1::Deployment;
use steersman_controller::{Action, Context, Controller, Error, Request, Watch, reconcile};
use steersman_testenv::log::capture;

use crate::world::{World, record};

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_once_with_its_key_attempt_delay_and_whole_chain() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        note.note(&ctx.attempt());
        std::future::ready(match ctx.attempt() {
            0 => Err(io::Error::other(io::Error::other("the cause")).into()),
            1 => panic!("the panic"),
            2 => Err(Error::msg("for good").terminal()),
            _ => Ok(Action::done()),
        })
    });
    let controller = Controller::builder::<Deployment>()
        .name("site")
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["0", "1", "2"]);

    let text = log.text();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
    let expected: [&[&str]; 3] = [
        &["the cause", "attempt=0", "retry_in=5ms", "reconcileID=1"],
        &["the panic", "attempt=1", "retry_in=10ms", "reconcileID=2"],
        &["for good", "attempt=2", "is not retried", "reconcileID=3"],
    ];
    assert_eq!(errors.len(), expected.len(), "{text}");
    for (line, parts) in errors.iter().zip(expected) {
        let keys = [
            "controller=\"site\"",
            "controllerGroup=\"apps\"",
            "controllerKind=\"Deployment\"",
            "namespace=\"default\"",
            "name=\"web\"",
        ];
        for part in keys.iter().chain(parts) {
            assert!(line.contains(part), "{part:?} is not in {line}");
        }
        assert!(!line.contains("request="), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_type_of_its_own_is_logged_as_a_whole() {
    let log = capture();
    let mut world = World::new();
    let (note, mut runs) = record();
    let fails = move |_: Context, namespace: String| {
        note.note(&namespace);
        std::future::ready(Err(Error::msg("on purpose").terminal()))
    };
    let controller = Controller::keyed::<String>("namespaces")
        .watch(Watch::requests(futures::stream::iter(["shop".to_owned()])))
        .build(reconcile::from_fn(fails))
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["shop"]);
    let text = log.text();
    let line = text.lines().find(|line| line.contains("ERROR")).unwrap();
    for part in [
        "controller=\"namespaces\"", "request=\"shop\"", "reconcileID=1",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    for part in ["controllerGroup", "controllerKind", "namespace=", " name="] {
        assert!(!line.contains(part), "{part:?} is in {line}");
    }
}
