//! Tests certificates that change while the server runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::jiff::Timestamp;
use prometheus::Registry;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use steersman_api::AnyCertificate;
use steersman_serve::{
    CertificateMetrics, Error, Limits, ListenAddress, Server, ServerOptions, SharedCertificate,
    TlsOptions, dial_tls,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::{Running, ask, routes, serve, soon, status};

pub(crate) async fn connect(server: &Running, alpn: &[&str]) -> TlsStream<TcpStream> {
    let mut config = AnyCertificate::client_config()
        .unwrap()
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    soon(connector.connect(name, server.connect().await))
        .await
        .unwrap()
}

/// Returns the certificate that the server presents in a new handshake.
async fn shown(server: &Running) -> Vec<u8> {
    let stream = connect(server, &[]).await;
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    certificates[0].to_vec()
}

/// Returns a new certificate and its key in PEM, and the certificate in DER.
fn made() -> (String, String, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().to_vec();
    (certificate.pem(), key.serialize_pem(), der)
}

/// Writes a new certificate and its key to files, and returns the certificate in DER.
fn write(directory: &Path) -> Vec<u8> {
    let (chain, key, der) = made();
    std::fs::write(directory.join("tls.crt"), chain).unwrap();
    std::fs::write(directory.join("tls.key"), key).unwrap();
    der
}

/// SERVE-4: each handshake uses the present certificate files.
#[tokio::test]
async fn the_next_handshake_uses_the_changed_files() {
    let directory = tempfile::tempdir().unwrap();
    let first = write(directory.path());
    let registry = Registry::new();
    let metrics = CertificateMetrics::register(&registry).unwrap();
    let tls = TlsOptions::directory(directory.path()).metrics(metrics);
    let server = serve(ServerOptions::new().tls(tls), routes()).await;
    let before = connect(&server, &[]).await;
    assert_eq!(shown(&server).await, first);
    let second = write(directory.path());
    assert_ne!(first, second);
    assert_eq!(shown(&server).await, second);
    // Open connections keep working.
    assert_eq!(status(&ask(before, "/hello", "").await), 200);

    // Missing, incomplete and contradicting files leave the former certificate in use.
    let key = std::fs::read(directory.path().join("tls.key")).unwrap();
    std::fs::write(directory.path().join("tls.key"), "").unwrap();
    assert_eq!(shown(&server).await, second);
    std::fs::remove_file(directory.path().join("tls.key")).unwrap();
    assert_eq!(shown(&server).await, second);
    let other = KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(directory.path().join("tls.key"), other).unwrap();
    assert_eq!(shown(&server).await, second);
    assert_eq!(shown(&server).await, second);
    std::fs::write(directory.path().join("tls.key"), key).unwrap();
    assert_eq!(shown(&server).await, second);
    let third = write(directory.path());
    assert_eq!(shown(&server).await, third);

    let counted = |name: &str| {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.unwrap().get_metric()[0].get_counter().get_value()
    };
    // The files changed twice, and four handshakes met unusable files, each of which is counted for an alert.
    assert_eq!(counted("certwatcher_read_certificate_total"), 6.0);
    assert_eq!(counted("certwatcher_read_certificate_errors_total"), 4.0);
    server.stopped().await;
}

/// CERT-5: a replica keeps its certificate while the Secret cannot be used.
#[tokio::test]
async fn the_next_handshake_uses_the_certificate_that_the_program_set_last() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.crt");
    let client = ClientCertificate::make();
    std::fs::write(&authority, &client.pem).unwrap();
    for needs_client in [false, true] {
        let certificate = SharedCertificate::new();
        let mut tls = TlsOptions::shared(certificate.clone());
        if needs_client {
            tls = tls.client_ca(&authority);
        }
        let server = serve(ServerOptions::new().tls(tls), routes()).await;
        let asking = needs_client.then_some(&client);
        // The server listens without a certificate, and its handshakes fail.
        assert!(!certificate.is_set());
        assert_eq!(asked_by(&server, asking).await, 0);
        let mut last = Vec::new();
        for _ in 0..2 {
            let (chain, key, der) = made();
            certificate.set(&chain, &key).unwrap();
            assert_eq!(asked_by(&server, asking).await, 200);
            assert_eq!(asked_by(&server, asking).await, 200);
            assert_eq!(shown(&server).await, der);
            last = der;
        }
        // An invalid certificate is refused, and the former certificate stays.
        let (chain, other_key) = (made().0, made().1);
        for (chain, key) in [(&*chain, &*other_key), ("", &*other_key), (&*chain, "")] {
            let refused = certificate.set(chain, key);
            assert!(matches!(refused, Err(Error::Certificate { .. })));
        }
        assert_eq!(shown(&server).await, last);
        if needs_client {
            assert_eq!(asked_by(&server, None).await, 0);
        }
        server.stopped().await;
    }
    // A certificate that is set before the start is used at once.
    let certificate = SharedCertificate::new();
    let (chain, key, der) = made();
    certificate.set(&chain, &key).unwrap();
    let tls = TlsOptions::shared(certificate);
    let server = serve(ServerOptions::new().tls(tls), routes()).await;
    assert_eq!(shown(&server).await, der);
    server.stopped().await;
}

#[tokio::test]
async fn the_default_certificate_is_made_by_the_server() {
    let tls = TlsOptions::self_signed().http2(true);
    let server = serve(ServerOptions::new().tls(tls), routes()).await;
    let stream = connect(&server, &["http/1.1"]).await;
    assert_eq!(status(&ask(stream, "/hello", "").await), 200);
    let stream = connect(&server, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    server.stopped().await;
    let server = serve(
        ServerOptions::new().tls(TlsOptions::self_signed()),
        routes(),
    )
    .await;
    let stream = connect(&server, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    drop(stream);
    server.stopped().await;
}

/// SERVE-3: a stopping server waits for the requests in progress until the limit.
#[tokio::test]
async fn requests_over_http2_are_answered_and_a_client_that_is_gone_delays_no_stop() {
    let limits = Limits::new().shutdown_timeout(Duration::MAX);
    let tls = TlsOptions::self_signed().http2(true);
    let server = serve(ServerOptions::new().tls(tls).limits(limits), routes()).await;
    let stream = TokioIo::new(connect(&server, &["h2"]).await);
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = shaken.unwrap();
    let mut connection = std::pin::pin!(connection);
    let request = Request::get("https://localhost/hello").body(Empty::<Bytes>::new());
    let response = tokio::select! {
        response = sender.send_request(request.unwrap()) => response.unwrap(),
        _ = connection.as_mut() => unreachable!("the connection is open"),
    };
    assert_eq!(
        (response.status(), response.version()),
        (StatusCode::OK, Version::HTTP_2)
    );
    // From here on, the client neither reads nor closes the connection.
    server.stopped().await;
}

#[tokio::test]
async fn files_that_are_missing_at_the_start_are_an_error_that_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let address = ListenAddress::from("127.0.0.1:0");
    let bind = async || {
        let tls = TlsOptions::directory(directory.path());
        Server::bind("test", &address, ServerOptions::new().tls(tls)).await
    };
    let error = bind().await.unwrap_err();
    assert!(matches!(error, Error::CertificateFile { .. }));
    assert!(error.to_string().contains("tls.crt"), "{error}");
    write(directory.path());
    std::fs::write(directory.path().join("tls.key"), "no key").unwrap();
    assert!(matches!(bind().await, Err(Error::Certificate { .. })));
}

/// A self-signed client certificate, which is its own authority, and its key.
struct ClientCertificate {
    pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl ClientCertificate {
    fn make() -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            key,
        }
    }
}

/// Returns the status of a GET with or without a client certificate; 0 if the server ends the connection.
async fn asked_by(server: &Running, client: Option<&ClientCertificate>) -> u16 {
    let config = match client {
        None => AnyCertificate::client_config()
            .unwrap()
            .with_no_client_auth(),
        Some(client) => {
            let key = PrivateKeyDer::try_from(client.key.serialize_der()).unwrap();
            let chain = vec![client.der.clone()];
            AnyCertificate::client_config()
                .unwrap()
                .with_client_auth_cert(chain, key)
                .unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let asking = async {
        // The server may refuse the client during the handshake, or at the first bytes after it.
        let stream = connector.connect(name, server.connect().await).await;
        let mut stream = stream.ok()?;
        let request = b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.ok()?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.ok()?;
        Some(status(&String::from_utf8_lossy(&response)))
    };
    soon(asking).await.unwrap_or_default()
}

/// SERVE-4: the file with the authorities of clients is read again, too.
#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.crt");
    let (one, other) = (ClientCertificate::make(), ClientCertificate::make());
    std::fs::write(&authority, &one.pem).unwrap();
    write(directory.path());
    for tls in [
        TlsOptions::self_signed(),
        TlsOptions::directory(directory.path()),
    ] {
        std::fs::write(&authority, &one.pem).unwrap();
        let tls = tls.client_ca(&authority);
        let server = serve(ServerOptions::new().tls(tls), routes()).await;
        assert_eq!(asked_by(&server, Some(&one)).await, 200);
        assert_eq!(asked_by(&server, Some(&other)).await, 0);
        assert_eq!(asked_by(&server, None).await, 0);
        // An unusable file leaves the former authority in use.
        std::fs::write(&authority, "no PEM").unwrap();
        assert_eq!(asked_by(&server, None).await, 0);
        assert_eq!(asked_by(&server, Some(&one)).await, 200);
        std::fs::write(&authority, &other.pem).unwrap();
        assert_eq!(asked_by(&server, Some(&other)).await, 200);
        assert_eq!(asked_by(&server, Some(&one)).await, 0);
        server.stopped().await;
    }
}

/// Writes a certificate that is valid from the first day of year `from` to that of year `to`.
fn write_of_years(directory: &Path, from: i32, to: i32) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(to, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}

// SERVE-7: an expired certificate is reported.
#[tokio::test]
async fn an_expired_certificate_is_served_and_seen_in_the_log_the_metrics_and_a_dial() {
    let log = steersman_testenv::log::capture();
    let directory = tempfile::tempdir().unwrap();
    write_of_years(directory.path(), 2001, 2002);
    let registry = Registry::new();
    let metrics = CertificateMetrics::register(&registry).unwrap();
    let tls = TlsOptions::directory(directory.path()).metrics(metrics);
    let server = serve(ServerOptions::new().tls(tls), routes()).await;
    let shown_at = || {
        let families = registry.gather();
        let name = "steersman_certificate_not_after_timestamp_seconds";
        let family = families.iter().find(|family| family.name() == name);
        let metric = &family.unwrap().get_metric()[0];
        assert_eq!(metric.get_label()[0].name(), "server");
        metric.get_gauge().get_value()
    };
    let dialled = || dial_tls(server.address, Timestamp::now());
    for _ in 0..2 {
        let problem = dialled().await.unwrap_err();
        assert!(problem.contains("expired at 2002-01-01"), "{problem}");
    }
    assert!((shown_at() - 1_009_843_200.0).abs() < 1.0);

    write_of_years(directory.path(), 2400, 2401);
    let problem = dialled().await.unwrap_err();
    assert!(problem.contains("not valid before 2400-01-01"), "{problem}");
    write_of_years(directory.path(), 2001, 2400);
    dialled().await.unwrap();
    assert!(shown_at() > 1e10);
    let text = log.text();
    for (line, times) in [
        ("ERROR", 2),
        ("expired at 2002-01-01", 1),
        ("not valid before 2400-01-01", 1),
        ("the certificate is valid", 1),
    ] {
        assert_eq!(text.matches(line).count(), times, "{line}: {text}");
    }
}
