//! A half-open connection: packets are lost, and neither end is notified.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::{ByObject, Cache, CacheOptions};
use steersman_informer::{Delivery, Event, InformerState};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::world::key;

/// The time limit of each wait of a test.
const LONG: Duration = Duration::from_secs(60);

/// Forwards connections of clients to the server. While `cut` is true, new connections are closed at once, and bytes on
/// open connections are dropped. A connection that was open during a cut stays open and silent.
async fn cable(server: SocketAddr, cut: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut cut = cut.clone();
            if *cut.borrow() {
                continue;
            }
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let ended = tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => true,
                    _ = async { cut.wait_for(|cut| *cut).await.is_ok() } => false,
                };
                if !ended {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address
}

fn put(server: &ApiServer, name: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    });
    server.create(object).unwrap();
}

/// Scenario 27, CONN-2, REFL-10: a dead link ends the state `Synced`, the watch moves to another connection, and
/// changes made meanwhile are delivered once.
#[tokio::test]
async fn a_dead_link_degrades_its_kinds_and_costs_no_event() {
    let server = ApiServer::builder().seed(1).build();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let cut = watch::Sender::new(false);
    let address = cable(serving.addr(), cut.subscribe()).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let kubeconfig = serving
        .kubeconfig()
        .replace(&serving.url(), &format!("https://{address}"));
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path())
        .await
        .unwrap()
        .ping_interval(Duration::from_millis(500))
        .ping_timeout(Duration::from_secs(2));

    put(&server, "before");
    let everywhere = ByObject::new().all_namespaces();
    let cache = Cache::new(CacheOptions::new().by_object::<ConfigMap>(everywhere)).unwrap();
    let informer = cache.informer::<ConfigMap>().unwrap();
    let mut events = informer.subscribe();
    let stop = CancellationToken::new();
    let running = tokio::spawn(cache.run(client_config, stop.clone()));
    timeout(LONG, cache.wait_for_sync()).await.unwrap().unwrap();
    let mut state = informer.state_changes();
    let synced = state.wait_for(|state| *state == InformerState::Synced);
    timeout(LONG, synced).await.unwrap().unwrap();

    cut.send_replace(true);
    let left = state.wait_for(|state| matches!(state, InformerState::Degraded { .. }));
    timeout(LONG, left).await.unwrap().unwrap();
    put(&server, "meanwhile");
    server.delete("configmaps", "default", "before").unwrap();
    cut.send_replace(false);

    let mut delivered = Vec::new();
    while delivered.len() < 3 {
        match timeout(LONG, events.next()).await.unwrap() {
            // The server has its own ConfigMaps in another namespace.
            Some(Delivery::Event(event)) if event.key().namespace() == Some("default") => {
                delivered.push(event);
            }
            Some(_) => {}
            None => panic!("the subscription ended"),
        }
    }
    assert!(matches!(&delivered[..], [Event::Created { .. }, rest @ ..] if rest.len() == 2));
    assert!(
        cache
            .get::<ConfigMap>(&key("default", "meanwhile"))
            .await
            .is_ok()
    );
    let gone = cache.get_opt::<ConfigMap>(&key("default", "before")).await;
    assert!(gone.unwrap().is_none());
    stop.cancel();
    running.await.unwrap().unwrap();
}
