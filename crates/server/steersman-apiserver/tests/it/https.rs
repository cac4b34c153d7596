//! Tests over HTTPS, with kube-client as a real client, and with raw sockets.

mod client_certificates;
mod stops;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_client::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use steersman_apiserver::faults::Restart;
use steersman_apiserver::play::Played;
use steersman_apiserver::{ApiServer, Error, History, Serving};
use steersman_testenv::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{CONFIG_MAPS, config_map, website, website_crd};

/// Longer than any step here takes; a wait that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

async fn client(serving: &Serving) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn config_maps(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    Api::default_namespaced_with(client, &ApiResource::from_gvk(&kind))
}

fn typed(object: serde_json::Value) -> DynamicObject {
    serde_json::from_value(object).unwrap()
}

/// Without a runtime the simulator cannot run; the first use within a runtime starts it.
#[test]
fn a_listener_for_other_machines_starts_the_player() {
    let server = ApiServer::builder().play(Played::everything()).build();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let _serving = server.serve_others("127.0.0.1:0").await.unwrap();
        let nodes = eventually("the simulator's node", || async {
            let nodes = server.list("nodes", "").len();
            if nodes == 1 {
                Ok(())
            } else {
                Err(format!("{nodes} of them"))
            }
        });
        nodes.await.unwrap();
    });
}

#[tokio::test]
async fn a_client_writes_reads_and_watches() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let api = config_maps(client(&serving).await);
    let watch = api
        .watch(&WatchParams::default(), &server.revision().to_string())
        .await
        .unwrap();
    let mut watch = Box::pin(watch);
    api.create(&PostParams::default(), &typed(config_map("a")))
        .await
        .unwrap();
    let event = tokio::time::timeout(TOO_LONG, watch.try_next())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(event, Some(WatchEvent::Added(object)) if object.metadata.name.as_deref() == Some("a"))
    );
    let patch = Patch::Merge(json!({ "data": { "k": "2" } }));
    api.patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(api.get("a").await.unwrap().data["data"]["k"], "2");
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let absent = api.get("a").await.unwrap_err();
    assert!(matches!(absent, kube_client::Error::Api(status) if status.code == 404));
    let log = server.requests();
    assert!(log.count(|request| request.is_for("configmaps")) >= 6);
}

#[tokio::test(start_paused = true)]
async fn the_same_client_works_in_process() {
    let server = ApiServer::new();
    let api = config_maps(Client::new(server.service(), "default"));
    let watch = api
        .watch(&WatchParams::default(), &server.revision().to_string())
        .await
        .unwrap();
    let mut watch = Box::pin(watch);
    api.create(&PostParams::default(), &typed(config_map("a")))
        .await
        .unwrap();
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    tokio::time::advance(Duration::from_secs(50)).await;
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Bookmark(_))
    ));
    server.faults().cut_watches();
    assert!(watch.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn custom_resources_are_discovered() {
    let server = ApiServer::new();
    server.install_crd(website_crd()).unwrap();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let client = client(&serving).await;
    let kind = GroupVersionKind::gvk("example.com", "v1", "Website");
    let (resource, capabilities) = kube_client::discovery::pinned_kind(&client, &kind)
        .await
        .unwrap();
    assert_eq!(resource.plural, "websites");
    assert!(
        capabilities
            .subresources
            .iter()
            .any(|(below, _)| below.plural == "status")
    );
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    api.create(&PostParams::default(), &typed(website("one")))
        .await
        .unwrap();
    assert_eq!(server.list("websites.example.com", "default").len(), 1);
    let all = kube_client::discovery::Discovery::new(client)
        .run()
        .await
        .unwrap();
    assert!(all.has_group("example.com"));
}

#[tokio::test]
async fn stopping_ends_watches_and_connections() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let address = serving.addr();
    let api = config_maps(client(&serving).await);
    let watch = api
        .watch(&WatchParams::default(), &server.revision().to_string())
        .await
        .unwrap();
    let watch = Box::pin(watch);
    tokio::time::timeout(TOO_LONG, serving.stop())
        .await
        .unwrap();
    let last = tokio::time::timeout(TOO_LONG, watch.try_collect::<Vec<_>>());
    let last = last.await.unwrap().unwrap();
    assert!(matches!(last[..], [WatchEvent::Bookmark(_)]), "{last:?}");
    TcpStream::connect(address).await.unwrap_err();
    // The server itself still runs, and can be served again.
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    config_maps(client(&serving).await)
        .list(&ListParams::default())
        .await
        .unwrap();
    let address = serving.addr();
    drop(serving);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn bytes_that_are_no_tls_do_not_affect_other_connections() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        b"\0\0\0\0",
    ] {
        let mut socket = TcpStream::connect(serving.addr()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // The server closes the connection, with an alert, a reset or nothing.
        let _ = tokio::time::timeout(TOO_LONG, socket.read_to_end(&mut answer))
            .await
            .unwrap();
    }
    config_maps(client(&serving).await)
        .list(&ListParams::default())
        .await
        .unwrap();
}

/// The client continues to send after the refusal. If the server did not read that, closing would
/// reset the connection, and the answer would be lost.
#[tokio::test]
async fn a_body_that_is_too_long_is_answered_413() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let mut connection = speak_tls(&serving).await;
    // More than the buffers of the sockets hold, so that writing ends only if the server reads.
    let long = vec![b' '; 20 * 1024 * 1024];
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\n";
    let announced = format!("{head}content-length: {}\r\n\r\n", long.len());
    let in_pieces = format!(
        "{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n",
        long.len()
    );
    for (head, tail) in [(announced, ""), (in_pieces, "\r\n0\r\n\r\n")] {
        let talk = async {
            connection.write_all(head.as_bytes()).await.unwrap();
            connection.write_all(&long).await.unwrap();
            connection.write_all(tail.as_bytes()).await.unwrap();
            connection.flush().await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\"code\":413}\n") {
                assert_ne!(connection.read_buf(&mut answer).await.unwrap(), 0);
            }
            String::from_utf8(answer).unwrap()
        };
        let answer = tokio::time::timeout(TOO_LONG, talk).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("RequestEntityTooLarge"), "{answer}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    let selector = "a".repeat(60_000);
    let url = "a".repeat(70_000);
    let header = "a".repeat(2 << 20);
    for (request, code) in [
        (
            format!("GET {path}?x={selector} HTTP/1.1\r\nhost: x\r\n\r\n"),
            "200",
        ),
        (
            format!("GET {path}?x={url} HTTP/1.1\r\nhost: x\r\n\r\n"),
            "414",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nx: {header}\r\n\r\n"),
            "431",
        ),
    ] {
        let connection = speak_tls(&serving).await;
        let (mut reader, mut writer) = tokio::io::split(connection);
        // The answer may arrive, and the connection end, before the request is written completely.
        let writing = async { writer.write_all(request.as_bytes()).await };
        let reading = async {
            let mut answer = Vec::new();
            while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
                if matches!(reader.read_buf(&mut answer).await, Ok(0) | Err(_)) {
                    break;
                }
            }
            String::from_utf8_lossy(&answer).into_owned()
        };
        let both = async { tokio::join!(writing, reading) };
        let (_, answer) = tokio::time::timeout(TOO_LONG, both).await.unwrap();
        let wanted = format!("HTTP/1.1 {code} ");
        // Data in transit when the server closed may have reset the connection and lost the
        // refusal.
        let reset = code == "431" && answer.is_empty();
        assert!(reset || answer.starts_with(&wanted), "{code}: {answer}");
    }
}

/// Opens a TLS connection.
async fn speak_tls(serving: &Serving) -> tokio_rustls::client::TlsStream<TcpStream> {
    speak_tls_as(serving, Vec::new()).await
}

/// Opens a TLS connection with these protocols offered by the client.
async fn speak_tls_as(
    serving: &Serving,
    protocols: Vec<Vec<u8>>,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(serving.ca_pem().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols;
    let socket = TcpStream::connect(serving.addr()).await.unwrap();
    let name = ServerName::from(serving.addr().ip());
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, socket).await.unwrap()
}

/// kubectl and Go's clients use one connection for all requests.
#[tokio::test]
async fn one_http2_connection_carries_a_watch_and_requests_beside_it() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let offered = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = speak_tls_as(&serving, offered).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let ask = |method: &str, query: &str, body: String| {
        let url = format!("{}{CONFIG_MAPS}{query}", serving.url());
        let request = http::Request::builder().method(method).uri(url);
        let request = request
            .body(http_body_util::Full::new(Bytes::from(body)))
            .unwrap();
        sender.clone().send_request(request)
    };
    let mut watch = ask("GET", "?watch=1", String::new()).await.unwrap();
    assert_eq!(watch.version(), http::Version::HTTP_2);
    for name in ["a", "b"] {
        let created = ask("POST", "", config_map(name).to_string()).await.unwrap();
        assert_eq!(created.status(), 201);
    }
    let event = tokio::time::timeout(TOO_LONG, watch.frame()).await.unwrap();
    let event = event.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(b"{\"type\":\"ADDED\""));
    tokio::time::timeout(TOO_LONG, serving.stop())
        .await
        .unwrap();
    // The watch ends normally, and the connection with it.
    tokio::time::timeout(TOO_LONG, watch.collect())
        .await
        .unwrap()
        .unwrap();
    drop(sender);
    let closed = tokio::time::timeout(TOO_LONG, connection).await.unwrap();
    closed.unwrap().unwrap();
}

/// A client finds its pooled connections closed, as after any restart.
#[tokio::test]
async fn a_restart_closes_idle_connections() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let stream = speak_tls(&serving).await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let host = serving.addr().to_string();
    let request = http::Request::builder()
        .uri("/version")
        .header("host", host);
    let request = request
        .body(http_body_util::Full::new(Bytes::new()))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    answer.collect().await.unwrap();
    server.restart(History::Kept);
    let closed = tokio::time::timeout(TOO_LONG, connection).await;
    closed.unwrap().unwrap().unwrap();
    assert!(sender.is_closed());
}

/// A server that is away refuses connections, drops open ones, and comes back at the same address.
#[tokio::test]
async fn a_server_that_is_away_refuses_connections_and_comes_back_at_its_address() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let stream = speak_tls(&serving).await;
    let (_sender, connection) =
        hyper::client::conn::http1::handshake::<_, String>(TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    server.restart(Restart::new(History::Kept).away(Duration::from_millis(500)));
    let closed = tokio::time::timeout(TOO_LONG, connection).await;
    // How the connection ends does not matter.
    let _ended = closed.unwrap().unwrap();
    while TcpStream::connect(serving.addr()).await.is_ok() {
        tokio::task::yield_now().await;
    }
    eventually("the server is back", || async {
        let back = TcpStream::connect(serving.addr()).await;
        back.map(drop).map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    client(&serving).await.apiserver_version().await.unwrap();
}

#[tokio::test]
async fn only_loopback_is_served() {
    let server = ApiServer::new();
    let refused = server.serve("0.0.0.0:0").await.unwrap_err();
    assert!(matches!(refused, Error::NotLoopback { .. }));
    assert!(refused.is_address());
    let first = server.serve("127.0.0.1:0").await.unwrap();
    let taken = server.serve(first.addr()).await.unwrap_err();
    assert!(
        taken.to_string().contains(&first.addr().to_string()),
        "{taken}"
    );
}

/// A `HEAD` is answered like a `GET` without the body, which in HTTP/2 would break the stream.
#[tokio::test]
async fn a_head_is_answered_without_a_body() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let stream = speak_tls_as(&serving, vec![b"h2".to_vec()]).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    for (path, code) in [("/healthz", 200), ("/version", 405), ("/nowhere", 404)] {
        let request = http::Request::head(format!("{}{path}", serving.url()));
        let request = request.body(http_body_util::Empty::<Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        assert_ne!(answer.headers()["content-length"], "0", "{path}");
        let body = answer.into_body().collect().await.unwrap();
        assert!(body.to_bytes().is_empty(), "{path}");
    }
    drop(sender);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_plain_http_client_is_told_to_use_https() {
    let serving = ApiServer::new().serve("127.0.0.1:0").await.unwrap();
    let mut socket = TcpStream::connect(serving.addr()).await.unwrap();
    socket
        .write_all(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.0 400 "), "{response}");
    assert!(
        response.ends_with("Client sent an HTTP request to an HTTPS server.\n"),
        "{response}"
    );
}

#[tokio::test]
async fn the_kubeconfig_is_written_for_its_owner() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    serving.write_kubeconfig(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, serving.kubeconfig());
    assert!(text.contains("certificate-authority-data: "));
    let missing = folder.path().join("missing").join("kubeconfig");
    let refused = serving.write_kubeconfig(&missing).unwrap_err();
    assert!(refused.to_string().contains("missing"), "{refused}");
    // A kubeconfig of an earlier server is overwritten, any other file is not.
    let second = ApiServer::new().serve("127.0.0.1:0").await.unwrap();
    second.write_kubeconfig(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), second.kubeconfig());
    let theirs = text.replace("name: steersman\n  cluster", "name: production\n  cluster");
    std::fs::write(&path, &theirs).unwrap();
    let refused = serving.write_kubeconfig(&path).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(
        why.starts_with("it holds the way to production, and stays"),
        "{why}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
}
