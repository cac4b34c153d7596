//! Signals of the process: the first stops in order, the second at once. Real time, real signals.

use std::process::Command;

use steersman_apiserver::ApiServer;
use steersman_manager::{Error, Group, runnable, shutdown_signal};
use tokio::sync::oneshot;

use crate::world::manager_of;

/// Sends SIGTERM to the process of this test.
fn terminate() {
    // The `kill` of the shell, because not every machine has a program of that name.
    let sent = Command::new("sh").args(["-c", "kill -TERM $PPID"]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let manager = manager_of(&ApiServer::new())
        .graceful_shutdown_without_timeout()
        .build()
        .unwrap();
    let ((up, is_up), (asked, was_asked)) = (oneshot::channel(), oneshot::channel());
    let stubborn = runnable::from_fn("stubborn", Group::Others, move |context| async move {
        let _ = up.send(());
        context.cancelled().await;
        let _ = asked.send(());
        std::future::pending().await
    });
    manager.add(stubborn).unwrap();
    let running = tokio::spawn(async move { manager.start(shutdown_signal()).await });
    is_up.await.unwrap();
    terminate();
    was_asked.await.unwrap();
    terminate();
    let error = running.await.unwrap().unwrap_err();
    let Error::Aborted { running } = &error else {
        panic!("{error}")
    };
    assert!(running.contains(&"stubborn".to_owned()), "{error}");
}
