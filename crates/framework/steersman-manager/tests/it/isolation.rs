//! MGR-5: a misbehaving runnable ends the manager in order, or has no effect on others.

use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_client::Client;
use steersman_controller::{Controller, Error as ReconcileError};
use steersman_manager::{BoxError, Error, Group, RunContext, Runnable, Shutdown, runnable};
use steersman_object::{ObjectKey, report};
use steersman_testenv::log::capture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::world::{Notes, Tell, config_map, manager_of, soon, start};

/// A runnable that panics outside of the future that it returns.
struct Rash {
    in_begin: bool,
}

impl Runnable for Rash {
    fn name(&self) -> String {
        "rash".to_owned()
    }

    fn group(&self) -> Group {
        Group::Others
    }

    fn begin(&mut self) {
        assert!(!self.in_begin, "too early");
    }

    fn run(self, _: RunContext) -> impl Future<Output = Result<(), BoxError>> + Send {
        assert!(self.in_begin, "too early");
        async { Ok(()) }
    }
}

/// MGR-5, MGR-2
#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_stops_the_others_in_order() {
    for in_begin in [true, false] {
        let manager = manager_of(&ApiServer::new()).build().unwrap();
        let notes = Notes::default();
        manager.add(notes.slow(Group::HttpServers)).unwrap();
        manager.add(Rash { in_begin }).unwrap();
        let error = start(&manager).ended().await.unwrap_err();
        assert!(
            matches!(&error, Error::Panicked { name, message, .. } if name == "rash" && message == "too early"),
            "{error}"
        );
        let stopped = ["start", "ready", "stop", "end"].map(|w| format!("{w} HTTP servers"));
        assert_eq!(notes.all(), stopped);
    }
}

/// MGR-5: also a runnable that is added while the manager runs.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_runnable_added_later_stops_the_others_in_order() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::LeaderElected)).unwrap();
    let started = start(&manager);
    notes.reach(2).await;
    manager.add(Rash { in_begin: true }).unwrap();
    let error = started.ended().await.unwrap_err();
    assert_eq!(error.failed(), Some("rash"));
    assert_eq!(
        notes.all()[2..],
        ["stop leader-elected", "end leader-elected"]
    );
}

/// MGR-5
#[tokio::test(start_paused = true)]
async fn a_runnable_that_cancels_its_token_stops_only_itself() {
    let server = ApiServer::new();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let (ended, has_ended) = oneshot::channel();
    let hasty = runnable::from_fn("hasty", Group::LeaderElected, |context| async move {
        // Dropping a drop guard of the token has this effect.
        context.cancellation().cancel();
        context.cancelled().await;
        let _ = ended.send(());
        Ok(())
    });
    manager.add(hasty).unwrap();
    let started = start(&manager);
    soon(has_ended).await.unwrap();
    server.create(config_map("a")).unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    started.stop().await.unwrap();
}

/// MGR-5
#[tokio::test(start_paused = true)]
async fn a_request_to_stop_that_panics_stops_in_order() {
    let log = capture();
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let (panic, panics) = oneshot::channel::<()>();
    let shutdown = Shutdown::when(async move {
        let _ = panics.await;
        panic!("no signal");
    });
    let running = tokio::spawn(manager.start(shutdown));
    notes.reach(2).await;
    panic.send(()).unwrap();
    soon(running).await.unwrap().unwrap();
    assert_eq!(notes.all()[2..], ["stop others", "end others"]);
    assert!(
        log.text().contains("the request to stop panicked"),
        "{}",
        log.text()
    );
}

async fn slow_write(client: Client) {
    let config = ConfigMap {
        metadata: ObjectKey::namespaced("default", "slow").to_meta(),
        ..ConfigMap::default()
    };
    // The task of the write goes on after the runnable has ended.
    let _ = client.create(&config).await;
}

/// CTRL-9
#[tokio::test(start_paused = true)]
async fn an_idle_controller_stops_at_once_while_a_write_of_a_runnable_is_in_flight() {
    let log = capture();
    let server = ApiServer::new();
    server
        .faults()
        .delay(Verb::Create, "configmaps", Duration::from_secs(3600))
        .keep();
    let manager = manager_of(&server).build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .name("database")
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let client = manager.client().clone();
    let writer = runnable::from_fn("writer", Group::Others, |context| async move {
        tokio::select! {
            () = slow_write(client) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    });
    manager.add(writer).unwrap();
    let started = start(&manager);
    soon(server.requests().wait_for(1, |r| r.does(Verb::Create))).await;
    let before = Instant::now();
    started.stop().await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(!log.text().contains("on its way"), "{}", log.text());
}

async fn checks() -> Result<(), ReconcileError> {
    Err(ReconcileError::from(std::io::Error::other(
        "the disk is full",
    )))
}

#[tokio::test(start_paused = true)]
async fn a_runnable_returns_the_error_of_reconcilers_and_any_other() {
    let asks = |which: u8| {
        let asks = move |_: RunContext| async move {
            match which {
                0 => checks().await?,
                1 => return Err(ReconcileError::msg("the disk is full").into()),
                2 => Err(std::io::Error::other("the disk is full"))?,
                _ => return Err("the disk is full".into()),
            }
            Ok(())
        };
        runnable::from_fn("importer", Group::Others, asks)
    };
    for which in 0..4 {
        let manager = manager_of(&ApiServer::new()).build().unwrap();
        manager.add(asks(which)).unwrap();
        let error = start(&manager).ended().await.unwrap_err();
        let text = report(&error).to_string();
        assert_eq!(text, "importer failed (others): the disk is full");
    }
    assert!(checks().now_or_never().unwrap().is_err());
}
