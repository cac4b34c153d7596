//! MGR-1: groups start in one order, each ready before the next, and stop in another.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::ApiServer;
use steersman_cache::{ByObject, CacheOptions};
use steersman_manager::{Cluster, Error, Group, runnable};
use steersman_object::ObjectKey;
use steersman_testenv::log::capture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::{Notes, config_map, manager_of, soon, start};

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
        "HTTP servers", "webhooks", "caches", "others", "leader-elected",
    ];
    let stops = [
        "others", "leader-elected", "caches", "webhooks", "HTTP servers",
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

/// MGR-4
#[tokio::test(start_paused = true)]
async fn groups_do_not_wait_for_a_runnable_that_promised_no_readiness() {
    let log = capture();
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    for group in ALL {
        let silent = runnable::from_fn(group.to_string(), group, |context| async move {
            context.cancelled().await;
            Ok(())
        });
        manager.add(silent).unwrap();
    }
    let notes = Notes::default();
    manager.add(notes.slow(Group::LeaderElected)).unwrap();
    let started = start(&manager);
    let before = Instant::now();
    notes.reach(1).await;
    assert_eq!(Instant::now(), before);
    started.stop().await.unwrap();
    assert!(!log.text().contains("WARN"), "{}", log.text());
}

/// MGR-4
#[tokio::test(start_paused = true)]
async fn the_log_names_the_runnable_that_later_groups_wait_for() {
    let log = capture();
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Webhooks)).unwrap();
    let forgetful = runnable::from_fn("forgetful", Group::Webhooks, |context| async move {
        context.cancelled().await;
        Ok(())
    })
    .saying_when_ready();
    manager.add(forgetful).unwrap();
    let started = start(&manager);
    notes.reach(2).await;
    // During a day of waiting there is one warning, followed by ever fewer lines.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    started.stop().await.unwrap();
    let text = log.text();
    let named = |level: &str| {
        let lines = text.lines().filter(|l| l.contains(level));
        let lines = lines.filter(|l| l.contains("later groups wait"));
        lines
            .filter(|l| l.contains(r#"waiting_for="forgetful""#))
            .count()
    };
    assert_eq!(named("WARN"), 1, "{text}");
    assert_eq!(text.matches("WARN").count(), 1, "{text}");
    // Eight lines at 30 s, 70 s, 150 s and so on, and then one per hour.
    assert!((20..=32).contains(&named("INFO")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_does_not_stop_is_dropped_after_the_grace_and_named() {
    let grace = Duration::from_secs(5);
    let manager = manager_of(&ApiServer::new())
        .graceful_shutdown_timeout(grace)
        .build()
        .unwrap();
    let stubborn = runnable::from_fn("stubborn", Group::Others, |_| std::future::pending());
    manager.add(stubborn).unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let started = start(&manager);
    notes.reach(2).await;
    let before = Instant::now();
    let error = started.stop().await.unwrap_err();
    // MGR-3: the remaining groups are still asked to stop, and the server takes a second.
    assert_eq!(Instant::now() - before, grace + Duration::from_secs(1));
    assert_eq!(notes.all()[2..], ["stop HTTP servers", "end HTTP servers"]);
    assert!(error.is_unclean_stop());
    let Error::StopTimeout { running, .. } = &error else {
        panic!("{error}")
    };
    // The servers and the cache were not asked to stop in time, so they are not late.
    assert_eq!(running, &["stubborn"], "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_read_right_after_the_start_waits_for_the_first_sync() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    manager.cache().informer::<ConfigMap>().unwrap();
    // A slow group starts before the caches.
    manager
        .add(Notes::default().slow(Group::HttpServers))
        .unwrap();
    let other = CacheOptions::new().by_object::<ConfigMap>(ByObject::new());
    let client_config = manager.client_config().clone();
    let other = Cluster::new(client_config, other).unwrap();
    manager.add(other.clone()).unwrap();
    let key = ObjectKey::namespaced("default", "a");

    let stop = CancellationToken::new();
    let task = tokio::spawn(manager.start(stop.clone()));
    for client in [manager.client(), other.client()] {
        soon(client.get::<ConfigMap>(&key)).await.unwrap();
    }
    stop.cancel();
    soon(task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_dropped_before_its_first_poll_blocks_no_reader() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    manager.cache().informer::<ConfigMap>().unwrap();
    drop(manager.start(steersman_manager::Shutdown::never()));
    let key = ObjectKey::namespaced("default", "a");
    let before = Instant::now();
    let error = soon(manager.client().get::<ConfigMap>(&key)).await;
    assert!(error.unwrap_err().to_string().contains("stopped"));
    assert_eq!(Instant::now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_ends_a_start() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let never_ready = runnable::from_fn("never ready", Group::Webhooks, |context| async move {
        context.cancelled().await;
        Ok(())
    })
    .saying_when_ready();
    manager.add(never_ready).unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let started = start(&manager);
    tokio::task::yield_now().await;
    started.stop().await.unwrap();
    assert!(notes.all().is_empty(), "later groups were never started");
}

#[tokio::test(start_paused = true)]
async fn a_runnable_added_later_starts_at_once_and_never_after_the_stop() {
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
