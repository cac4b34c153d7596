//! MGR-2: a failure ends the manager with an error that names the runnable, and the rest stops in order.

use std::io;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use steersman_api::{ClientConfig, kube_client};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Answer;
use steersman_controller::Controller;
use steersman_manager::{Error, Group, Manager, runnable};
use tokio::sync::mpsc;
use tokio::time::Instant;

use steersman_object::report;
use steersman_testenv::log::capture;

use crate::world::{Notes, Tell, config_map, manager_of, soon, start};

/// MGR-2
#[tokio::test(start_paused = true)]
async fn an_error_ends_the_manager_and_stops_the_others_in_order() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let failing = runnable::from_fn("importer", Group::Others, |_| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Err(io::Error::other("the disk is full").into())
    });
    manager.add(failing).unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    assert_eq!(error.failed(), Some("importer"));
    assert_eq!(
        report(&error).to_string(),
        "importer failed (others): the disk is full"
    );
    let stopped = ["start", "ready", "stop", "end"].map(|w| format!("{w} HTTP servers"));
    assert_eq!(notes.all(), stopped);
}

/// MGR-2
#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_manager_with_an_error() {
    let manager = manager_of(&ApiServer::new()).build().unwrap();
    let panicking = runnable::from_fn("fragile", Group::Others, |_| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(1, 2, "arithmetic");
        Ok(())
    });
    manager.add(panicking).unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    assert!(
        matches!(&error, Error::Panicked { name, .. } if name == "fragile"),
        "{error}"
    );
    assert!(error.to_string().contains("arithmetic"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_required_kind_that_is_forbidden_ends_its_controller_and_the_manager() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let forbidden = Answer::code(403).message("services is forbidden");
    let _fault = server.faults().answer(None, "services", forbidden);
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .build(Tell(told.clone()))
                .unwrap(),
        )
        .unwrap();
    let services = Controller::builder::<Service>()
        .require_sync(Duration::from_secs(120))
        .build(Tell(told))
        .unwrap();
    manager.add_controller(services).unwrap();
    let before = Instant::now();
    let started = start(&manager);
    // The other controller works during the wait.
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    assert!(Instant::now() - before < Duration::from_secs(60));
    let error = started.ended().await.unwrap_err();
    assert_eq!(error.failed(), Some("controller \"service\""));
    let text = report(&error).to_string();
    assert!(
        text.contains("Service.v1") && text.contains("services is forbidden"),
        "{text}"
    );
    assert!(text.contains(r#"resources: ["services"]"#), "{text}");
}

/// A controller that went on without its events would miss every later change.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_removed_from_the_cache_ends_the_controller_that_watches_it() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let started = start(&manager);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    assert_eq!(manager.cache().remove::<Service>(), 0);
    assert_eq!(manager.cache().remove::<ConfigMap>(), 1);
    let error = started.ended().await.unwrap_err();
    assert_eq!(error.failed(), Some("controller \"configmap\""));
    let text = report(&error).to_string();
    assert!(
        text.contains("the cache stopped watching ConfigMap.v1")
            && text.contains("remove no kind from it that one watches"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_ends_the_manager_in_time() {
    let refuse = |_: http::Request<kube_client::client::Body>| async {
        Err::<http::Response<String>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
    };
    let client_config = ClientConfig::in_process(tower::service_fn(refuse), "default");
    let manager = Manager::builder(client_config).build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    let limit = Duration::from_secs(30);
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .require_sync(limit)
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let before = Instant::now();
    let error = start(&manager).ended().await.unwrap_err();
    assert!(Instant::now() - before < limit * 2);
    let text = report(&error).to_string();
    assert!(
        text.contains("ConfigMap.v1") && text.contains("connection refused"),
        "{text}"
    );
    assert!(
        text.contains("check that the API server is reachable"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_cached_is_logged_once() {
    let log = capture();
    let server = ApiServer::new();
    let _fault = server
        .faults()
        .answer(None, "services", Answer::code(403).message("no"));
    let manager = manager_of(&server).build().unwrap();
    manager.cache().informer::<Service>().unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let started = start(&manager);
    // The group after the caches runs.
    notes.reach(2).await;
    started.stop().await.unwrap();
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("WARN")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].contains("kind=services reason=forbidden"),
        "{text}"
    );
    assert!(
        lines[0].contains("403") && lines[0].contains("a ClusterRole"),
        "{text}"
    );
}
