//! What a failed reconcile leaves in the log.

use std::io;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use parking_lot::Mutex;
use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{World, record};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_once_with_its_key_attempt_delay_and_whole_chain() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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

    let log = log.0.lock().clone();
    let text = String::from_utf8(log).unwrap();
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
