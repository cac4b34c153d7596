//! MGR-3: a stop ends whatever a runnable does, as orderly as possible.

use std::time::Duration;

use futures::channel::mpsc::unbounded;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::ApiServer;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Request, reconcile,
};
use steersman_manager::{Error, Group, Shutdown, runnable};
use steersman_object::ObjectKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::world::{Notes, config_map, manager_of, soon, start};

/// MGR-3
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_hangs_is_named_and_the_rest_stops_in_order() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let grace = Duration::from_secs(10);
    let manager = manager_of(&server)
        .graceful_shutdown_timeout(grace)
        .build()
        .unwrap();
    let (began, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let hang = reconcile::from_fn(move |_: Context, request: Request| {
        let _ = began.send(request);
        std::future::pending::<Result<Action, ReconcileError>>()
    });
    manager
        .add_controller(Controller::builder::<ConfigMap>().build(hang).unwrap())
        .unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let started = start(&manager);
    soon(has_begun.recv()).await.unwrap();
    let before = Instant::now();
    let error = started.stop().await.unwrap_err();
    assert!(Instant::now() - before < grace, "the rest had time");
    assert_eq!(notes.all()[2..], ["stop HTTP servers", "end HTTP servers"]);
    let Error::StopTimeout { running, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(running, &[r#"controller "configmap" (default/a)"#]);
}

/// CACHE-10: caches stop after the controllers, so a running reconcile can still read.
#[tokio::test(start_paused = true)]
async fn caches_stop_after_the_last_reconcile_has_read() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let last_read = reconcile::from_fn(move |ctx: Context, request: Request| {
        let tell = tell.clone();
        async move {
            tell.send(None)?;
            ctx.cancelled().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let read = ctx.client().get_opt::<ConfigMap>(&request.key).await;
            tell.send(Some(read.map(|map| map.is_some())))?;
            Ok::<_, ReconcileError>(Action::done())
        }
    });
    manager
        .add_controller(Controller::builder::<ConfigMap>().build(last_read).unwrap())
        .unwrap();
    let started = start(&manager);
    assert!(soon(told.recv()).await.unwrap().is_none());
    started.stop().await.unwrap();
    let read = told.recv().await.unwrap().unwrap();
    assert!(read.unwrap());
    let key = ObjectKey::namespaced("default", "a");
    let error = manager.cache().get::<ConfigMap>(&key).await.unwrap_err();
    assert!(error.is_stopped(), "{error}");
}

/// MGR-3. Real time: a blocked thread does not stop a clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_blocks_its_thread_is_left_behind() {
    let manager = manager_of(&ApiServer::new())
        .graceful_shutdown_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let (up, is_up) = oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let blocker = runnable::from_fn("blocker", Group::Others, move |context| async move {
        let _ = up.send(());
        context.cancelled().await;
        let _ = released.recv();
        Ok(())
    });
    manager.add(blocker).unwrap();
    let started = start(&manager);
    is_up.await.unwrap();
    started.stop.cancel();
    // The limit makes a hang a failure.
    let ended = tokio::time::timeout(Duration::from_secs(60), started.task).await;
    // Released, because the runtime waits for its threads.
    drop(release);
    let error = ended.unwrap().unwrap().unwrap_err();
    let Error::StopTimeout { running, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(running, &["blocker"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_only_the_second_request_stops_at_once() {
    for requests in [1, 2] {
        let manager = manager_of(&ApiServer::new()).build().unwrap();
        let notes = Notes::default();
        manager.add(notes.slow(Group::HttpServers)).unwrap();
        let failing = runnable::from_fn("importer", Group::Others, |_| async {
            Err("the disk is full".into())
        });
        manager.add(failing).unwrap();
        let (request, requested) = unbounded();
        let running = tokio::spawn(manager.start(Shutdown::requests(requested)));
        notes.reach(3).await;
        assert_eq!(notes.all()[2], "stop HTTP servers");
        for _ in 0..requests {
            request.unbounded_send(()).unwrap();
        }
        let error = soon(running).await.unwrap().unwrap_err();
        assert_eq!(error.failed(), Some("importer"));
        let stopped = notes.all().contains(&"end HTTP servers".to_owned());
        assert_eq!(stopped, requests == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_request_cuts_the_last_moment_short() {
    let manager = manager_of(&ApiServer::new())
        .graceful_shutdown_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let stubborn = runnable::from_fn("stubborn", Group::Others, |_| std::future::pending());
    manager.add(stubborn).unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let (request, requested) = unbounded();
    let running = tokio::spawn(manager.start(Shutdown::requests(requested)));
    notes.reach(2).await;
    request.unbounded_send(()).unwrap();
    notes.reach(3).await;
    request.unbounded_send(()).unwrap();
    let error = soon(running).await.unwrap().unwrap_err();
    let Error::Aborted { running } = &error else {
        panic!("{error}")
    };
    assert_eq!(running, &["HTTP servers", "stubborn"]);
    assert_eq!(notes.all().last().unwrap(), "stop HTTP servers");
}

/// MGR-3
#[tokio::test(start_paused = true)]
async fn a_grace_of_zero_waits_for_nothing_and_the_maximum_for_everything() {
    let takes = Duration::from_secs(1_000_000);
    for grace in [Duration::ZERO, Duration::MAX] {
        let server = ApiServer::new();
        server.create(config_map("a")).unwrap();
        let manager = manager_of(&server)
            .graceful_shutdown_timeout(grace)
            .build()
            .unwrap();
        let (began, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        let slow = reconcile::from_fn(move |ctx: Context, request: Request| {
            let _ = began.send(request);
            async move {
                ctx.cancelled().await;
                tokio::time::sleep(takes).await;
                Ok::<_, ReconcileError>(Action::done())
            }
        });
        manager
            .add_controller(Controller::builder::<ConfigMap>().build(slow).unwrap())
            .unwrap();
        let started = start(&manager);
        soon(has_begun.recv()).await.unwrap();
        let before = Instant::now();
        started.stop.cancel();
        let stopped = started.task.await.unwrap();
        let waited = before.elapsed();
        if grace.is_zero() {
            let Err(Error::StopTimeout { grace, running }) = &stopped else {
                panic!("{stopped:?}")
            };
            assert!(grace.is_zero());
            let controller = r#"controller "configmap""#.to_owned();
            assert!(running.contains(&controller), "{running:?}");
            assert_eq!(waited, Duration::ZERO);
        } else {
            stopped.unwrap();
            assert!(waited >= takes, "{waited:?}");
        }
    }
}
