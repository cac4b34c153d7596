//! Health probes over sockets, in real time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::CustomResourceExt as _;
use rcgen::{CertificateParams, KeyPair};
use steersman_api::ClientConfig;
use steersman_api::kube_client::Config;
use steersman_apiserver::ApiServer;
use steersman_controller::{Action, Context, Error as ReconcileError, Reconciler, Request};
use steersman_manager::{Error, Group, HealthServer, Manager, runnable};
use steersman_testenv::eventually;
use steersman_testenv::log::capture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::missing_kinds::Website;
use crate::world::{Started, Tell, add, config_map, manager_of, soon, start};

/// Starts a manager, and waits until its HTTP servers listen.
pub(crate) async fn started_listening(manager: &Manager) -> Started {
    // This runnable starts after the HTTP servers.
    let listens = reached(manager, Group::Webhooks);
    let started = start(manager);
    soon(listens).await.unwrap();
    started
}

/// Adds a runnable to a group, which starts after all earlier groups. The result waits for it.
pub(crate) fn reached(manager: &Manager, group: Group) -> oneshot::Receiver<()> {
    let (told, starts) = oneshot::channel();
    let first = runnable::from_fn("told", group, |context| async move {
        told.send(()).unwrap();
        context.cancelled().await;
        Ok(())
    });
    manager.add(first).unwrap();
    starts
}

/// Sends a GET, and returns the status and the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(TcpStream::connect(address).await.unwrap(), path, "").await
}

pub(crate) async fn ask<S>(mut stream: S, path: &str, headers: &str) -> (u16, String)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A reset of the connection also ends the response.
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    let text = String::from_utf8(bytes).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// HEALTH-2
#[tokio::test]
async fn a_kind_that_never_synced_keeps_the_manager_from_being_ready_and_is_named() {
    let server = ApiServer::new();
    let manager = manager_of(&server).health("127.0.0.1:0").build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told.clone()));
    add::<Website>(&manager, Tell(told));
    assert_eq!(manager.health_address(), None);
    let started = started_listening(&manager).await;
    let address = manager.health_address().unwrap();
    let websites = manager.cache().informer::<Website>().unwrap();
    let mut states = websites.state_changes();
    soon(states.wait_for(|state| state.is_degraded()))
        .await
        .unwrap();

    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 500, "{text}");
    let named = "[-]informers failed\n    websites.web.example.com: not_served\n";
    assert!(text.contains(named), "{text}");
    assert!(text.ends_with("readyz check failed\n"), "{text}");
    assert_eq!(get(address, "/readyz/informers").await.0, 500);
    assert_eq!(get(address, "/livez").await.0, 200);
    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));

    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
    soon(states.wait_for(|state| state.is_synced()))
        .await
        .unwrap();
    // At the latest 8 s after their start the caches count as ready, and the manager has started.
    let (_, text) = get(address, "/readyz?exclude=manager&verbose").await;
    assert!(text.contains("[+]informers ok\n"), "{text}");
    started.stop().await.unwrap();
}

/// HEALTH-2, HEALTH-3
#[tokio::test]
async fn an_unreachable_server_leaves_the_manager_ready_and_live() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).health("127.0.0.1:0").build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told));
    let started = start(&manager);
    // The first reconcile shows that every group has started.
    soon(reconciled.recv()).await.unwrap();
    let address = manager.health_address().unwrap();
    assert_eq!(get(address, "/readyz").await, (200, "ok\n".to_owned()));

    let informer = manager.cache().informer::<ConfigMap>().unwrap();
    let mut states = informer.state_changes();
    server.shut_down();
    soon(states.wait_for(|state| state.is_degraded()))
        .await
        .unwrap();
    assert_eq!(get(address, "/readyz").await.0, 200);
    assert_eq!(get(address, "/livez").await.0, 200);
    let (_, text) = get(address, "/readyz?verbose").await;
    assert!(text.contains("[+]informers ok\n    configmaps: "), "{text}");
    assert!(text.contains("stale since its last sync"), "{text}");
    let (_, text) = get(address, "/livez?verbose").await;
    let expected = "[+]ping ok\n[+]tasks ok\n[+]workers ok\n[+]reflectors ok\nlivez check passed\n";
    assert_eq!(text, expected);
    started.stop().await.unwrap();
}

/// Never ends.
struct Forever(mpsc::UnboundedSender<()>);

impl Reconciler for Forever {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, ReconcileError> {
        self.0.send(())?;
        std::future::pending().await
    }
}

/// HEALTH-3
#[tokio::test]
async fn a_long_reconcile_is_live() {
    let server = ApiServer::new();
    for name in ["a", "b"] {
        server.create(config_map(name)).unwrap();
    }
    let grace = std::time::Duration::from_millis(1);
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .graceful_shutdown_timeout(grace)
        .build()
        .unwrap();
    let (told, mut begun) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Forever(told));
    let started = start(&manager);
    soon(begun.recv()).await.unwrap();
    let address = manager.health_address().unwrap();
    for _ in 0..3 {
        assert_eq!(get(address, "/livez").await.0, 200);
    }
    let work = manager.diagnostics().section("controllers").unwrap();
    assert_eq!(work[0]["work"]["running"], 1);
    let ended = manager.diagnostics().section("reconciles").unwrap();
    assert_eq!(ended, serde_json::json!([]));
    assert!(started.stop().await.unwrap_err().is_unclean_stop());
}

/// HEALTH-1
#[tokio::test]
async fn checks_of_the_program_run_by_name() {
    let server = ApiServer::new();
    let manager = manager_of(&server).health("127.0.0.1:0").build().unwrap();
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let check = move || {
        let fails = failing.load(Ordering::Relaxed);
        async move {
            if fails {
                return Err("the password is 1234");
            }
            Ok(())
        }
    };
    manager.add_ready_check("db", check).unwrap();
    let panics = || async {
        assert!(std::hint::black_box(false), "broken");
        Ok::<(), Error>(())
    };
    manager.add_health_check("panics", panics).unwrap();
    let passes = || async { Ok::<(), Error>(()) };
    for taken in ["db", "ping", "informers"] {
        let error = manager.add_ready_check(taken, passes).unwrap_err();
        assert!(matches!(error, Error::DuplicateCheck { .. }), "{error}");
    }
    let error = manager.add_ready_check("a b", passes).unwrap_err();
    assert!(matches!(error, Error::CheckName { .. }), "{error}");

    let started = started_listening(&manager).await;
    let address = manager.health_address().unwrap();
    let withheld = (500, "[-]db failed: reason withheld\n".to_owned());
    assert_eq!(get(address, "/readyz/db").await, withheld);
    assert_eq!(get(address, "/readyz/other").await.0, 404);
    assert_eq!(get(address, "/livez/panics").await.0, 500);
    assert_eq!(get(address, "/livez?exclude=panics").await.0, 200);
    assert_eq!(get(address, "/livez/").await.0, 500);
    fails.store(false, Ordering::Relaxed);
    assert_eq!(get(address, "/readyz/db").await.0, 200);
    started.stop().await.unwrap();
}

/// HEALTH-4
#[tokio::test]
async fn a_slow_check_is_logged_although_its_client_has_left() {
    let log = capture();
    let server = ApiServer::new();
    let manager = manager_of(&server).health("127.0.0.1:0").build().unwrap();
    let (told, mut is_slow) = mpsc::unbounded_channel();
    let slow = move || {
        let told = told.clone();
        async move {
            // The check takes longer than a probe of the kubelet waits.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            told.send(()).unwrap();
            std::future::pending::<Result<(), Error>>().await
        }
    };
    manager.add_ready_check("slow", slow).unwrap();
    let started = started_listening(&manager).await;
    let mut kubelet = TcpStream::connect(manager.health_address().unwrap())
        .await
        .unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nHost: test\r\n\r\n";
    kubelet.write_all(request).await.unwrap();
    soon(is_slow.recv()).await.unwrap();
    drop(kubelet);
    let logged = eventually("the slow check is logged", || async {
        let text = log.text();
        let line = text
            .lines()
            .find(|line| line.contains("a health check fails"));
        match line.is_some_and(|line| line.contains("slow") && line.contains("the client left")) {
            true => Ok(()),
            false => Err(text),
        }
    });
    logged.await.unwrap();
    started.stop().await.unwrap();
}

/// MGR-1, HEALTH-2
#[tokio::test]
async fn the_servers_stop_last_and_a_stopping_manager_is_not_ready() {
    let server = ApiServer::new();
    let options = HealthServer::new("127.0.0.1:0").reveal_reasons(true);
    let manager = manager_of(&server).health(options).build().unwrap();
    let (told, running) = oneshot::channel();
    let (asked, stopping) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let slow = runnable::from_fn("slow", Group::Others, |context| async move {
        told.send(()).unwrap();
        context.cancelled().await;
        asked.send(()).unwrap();
        finished.await?;
        Ok(())
    });
    manager.add(slow).unwrap();
    let started = start(&manager);
    soon(running).await.unwrap();
    let address = manager.health_address().unwrap();
    started.stop.cancel();
    soon(stopping).await.unwrap();
    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 500);
    assert!(text.contains("the manager is stopping"), "{text}");
    assert_eq!(get(address, "/livez").await.0, 200);
    finish.send(()).unwrap();
    started.ended().await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// HEALTH-3: on a paused clock, without sockets.
#[tokio::test(start_paused = true)]
async fn each_reflector_is_active_in_its_time_through_silence_and_an_outage() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told.clone()));
    // The kind is never served.
    add::<Website>(&manager, Tell(told));
    let started = start(&manager);
    soon(reconciled.recv()).await.unwrap();
    for minute in 0..240 {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        if minute == 120 {
            server.shut_down();
        }
        let now = tokio::time::Instant::now().into_std();
        let reports = manager.cache().informer_reports();
        assert_eq!(reports.len(), 2);
        for report in reports {
            assert!(report.activity_due.unwrap() >= now, "{minute}: {report:?}");
        }
    }
    started.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_ends_the_manager_with_an_error_that_names_it() {
    let server = ApiServer::new();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let manager = manager_of(&server).health(address).build().unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    assert_eq!(error.failed(), Some("health server"));
    let text = steersman_object::report(&error).to_string();
    assert!(text.contains(&address.to_string()), "{text}");
}

#[test]
fn an_address_that_is_off_or_wrong_is_known_when_the_manager_is_built() {
    let server = ApiServer::new();
    for off in ["", "0"] {
        let manager = manager_of(&server).health(off).metrics(off).build();
        let names = format!("{:?}", manager.unwrap());
        assert!(!names.contains("server\""), "{names}");
    }
    let error = manager_of(&server).health("8081").build().unwrap_err();
    assert!(matches!(error, Error::Server(_)), "{error}");
    let zero = HealthServer::new(":0").check_timeout(std::time::Duration::ZERO);
    let error = manager_of(&server).health(zero).build().unwrap_err();
    assert!(matches!(error, Error::Server(_)), "{error}");
}

/// HEALTH-5
#[tokio::test]
async fn an_expired_client_certificate_is_named_by_readiness_and_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let pair = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["operator".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(&key, pair.serialize_pem()).unwrap();
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.auth_info.client_certificate = Some(certificate.display().to_string());
    config.auth_info.client_key = Some(key.display().to_string());
    let client_config = ClientConfig::from_config(config);
    let manager = Manager::builder(client_config).health("127.0.0.1:0");
    let manager = manager.build().unwrap();
    let started = started_listening(&manager).await;
    let address = manager.health_address().unwrap();
    eventually("the finding", || async move {
        let (_, text) = get(address, "/readyz?verbose").await;
        let found = text.contains("[+]client-certificates ok\n    https://127.0.0.1:1: ")
            && text.contains("tls.crt: the certificate expired at 2002-01-01");
        if found { Ok(()) } else { Err(text) }
    })
    .await
    .unwrap();
    let families = manager.metrics_registry().gather();
    let name = "steersman_client_certificate_not_after_timestamp_seconds";
    let family = families.iter().find(|family| family.name() == name);
    let end = family.unwrap().get_metric()[0].get_gauge().get_value();
    assert!((end - 1_009_843_200.0).abs() < 1.0, "{end}");
    started.stop().await.unwrap();
}
