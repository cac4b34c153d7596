//! The log lines of a failed reconcile.

use std::io;

use k8s_openapi::api::apps::v1::Deployment;
use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
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
        &["the cause", "attempt=0", "retry_in=5ms", "reconcile_id=1"],
        &["the panic", "attempt=1", "retry_in=10ms", "reconcile_id=2"],
        &["for good", "attempt=2", "is not retried", "reconcile_id=3"],
    ];
    assert_eq!(errors.len(), expected.len(), "{text}");
    for (line, parts) in errors.iter().zip(expected) {
        for part in ["controller=\"site\"", "object=default/web"]
            .iter()
            .chain(parts)
        {
            assert!(line.contains(part), "{part:?} is not in {line}");
        }
    }
}
