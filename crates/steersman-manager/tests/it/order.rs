//! MGR-1: groups start in one order, each ready before the next, and stop in another.

use std::time::Duration;

use steersman_apiserver::ApiServer;
use steersman_manager::{Error, Group, runnable};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::world::{Notes, manager_of, soon, start};

const ALL: [Group; 5] = [
    Group::LeaderElected,
    Group::Others,
    Group::Caches,
    Group::HttpServers,
    Group::Webhooks,
];

/// MGR-1
#[tokio::test(start_paused = true)]
async fn groups_start_and_stop_in_their_orders() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    for group in ALL {
        manager.add(notes.slow(group)).unwrap();
    }
    let (up, is_up) = oneshot::channel();
    manager
        .add(runnable::from_fn(
            "last",
            Group::LeaderElected,
            move |context| async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let _ = up.send(());
                context.cancelled().await;
                Ok(())
            },
        ))
        .unwrap();
    let started = start(&manager);
    soon(is_up).await.unwrap();
    started.stop().await.unwrap();
    let starts = [
        "HTTP servers",
        "webhooks",
        "caches",
        "others",
        "leader-elected",
    ];
    let stops = [
        "others",
        "leader-elected",
        "caches",
        "webhooks",
        "HTTP servers",
    ];
    let expected: Vec<String> = starts
        .iter()
        .flat_map(|g| [format!("start {g}"), format!("ready {g}")])
        .chain(
            stops
                .iter()
                .flat_map(|g| [format!("stop {g}"), format!("end {g}")]),
        )
        .collect();
    assert_eq!(notes.all(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_stop_is_dropped_after_the_grace_and_named() {
    let grace = Duration::from_secs(5);
    let manager = manager_of(&ApiServer::new())
        .graceful_shutdown_timeout(grace)
        .build()
        .unwrap();
    let stubborn = runnable::from_fn("stubborn", Group::Others, |context| async move {
        context.ready();
        std::future::pending().await
    });
    manager.add(stubborn).unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let started = start(&manager);
    notes.reach(2).await;
    let before = Instant::now();
    let error = started.stop().await.unwrap_err();
    assert_eq!(Instant::now() - before, grace);
    assert!(error.is_unclean_stop());
    let Error::StopTimeout { running, .. } = &error else {
        panic!("{error}")
    };
    // Those whose turn never came are named too: they were dropped.
    assert!(running.contains(&"stubborn".to_owned()), "{error}");
    assert!(running.contains(&"HTTP servers".to_owned()), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_is_heard_while_starting() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let never_ready = runnable::from_fn("never ready", Group::Webhooks, |context| async move {
        context.cancelled().await;
        Ok(())
    });
    manager.add(never_ready).unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let started = start(&manager);
    tokio::task::yield_now().await;
    started.stop().await.unwrap();
    assert!(notes.all().is_empty(), "later groups were never started");
}

#[tokio::test(start_paused = true)]
async fn what_is_added_later_starts_at_once_and_after_the_stop_not_at_all() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let started = start(&manager);
    notes.reach(2).await;
    let (up, is_up) = oneshot::channel();
    let late = runnable::from_fn("late", Group::Caches, move |context| async move {
        let _ = up.send(());
        context.cancelled().await;
        Ok(())
    });
    manager.add(late).unwrap();
    soon(is_up).await.unwrap();
    started.stop().await.unwrap();
    let error = manager.add(notes.slow(Group::Others)).unwrap_err();
    assert!(matches!(error, Error::Stopping { .. }), "{error}");
    let error = manager
        .start(steersman_manager::Shutdown::never())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::AlreadyStarted), "{error}");
}
