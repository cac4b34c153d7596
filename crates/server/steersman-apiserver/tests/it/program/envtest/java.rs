//! The conversation of kube-api-test of fabric8's client for Java.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::control_plane::{client, free_ports, healthy};
use super::programs::Programs;
use super::{CONFIG_MAPS, STANDARD, config_map, get, post, until};
use base64::Engine as _;

/// An RSA key, for rcgen.
const PKCS8: &str = include_str!("../../../../../steersman-auth/testdata/keys/rsa-pkcs8.pem");
/// The same key as Bouncy Castle writes it.
const PKCS1: &str = include_str!("../../../../../steersman-auth/testdata/keys/rsa-pkcs1.pem");

/// Returns a certificate that signs itself, with an RSA key.
fn certificate(names: &[&str], subject: &[(DnType, &str)]) -> String {
    let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    let key = KeyPair::from_pem(PKCS8).unwrap();
    params.self_signed(&key).unwrap().pem()
}

/// Asks over HTTP/1.1 and returns the status.
async fn ask_http1(port: u16, authority: &str, path: &str) -> u16 {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = connector.connect(name, socket).await.unwrap();
    assert_eq!(
        stream.get_ref().1.alpn_protocol(),
        Some(b"http/1.1".as_slice())
    );
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(path)
        .header("host", format!("127.0.0.1:{port}"))
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    answer.into_body().collect().await.unwrap();
    status
}

fn texts(arguments: &[&str]) -> Vec<String> {
    arguments.iter().copied().map(str::to_owned).collect()
}

fn etcd_arguments(file: &dyn Fn(&str) -> String, url: &str, peer: u16) -> Vec<String> {
    let peer_url = format!("http://localhost:{peer}");
    texts(&[
        "-data-dir",
        &file("data"),
        "-wal-dir",
        &file("wal"),
        "--listen-client-urls",
        url,
        "--advertise-client-urls",
        url,
        "--initial-cluster",
        &format!("default={peer_url}"),
        "--initial-advertise-peer-urls",
        &peer_url,
        "--listen-peer-urls",
        &peer_url,
    ])
}

fn server_arguments(file: &dyn Fn(&str) -> String, url: &str, port: u16) -> Vec<String> {
    texts(&[
        "--cert-dir",
        &file(""),
        "--secure-port",
        &port.to_string(),
        "--etcd-servers",
        url,
        "--authorization-mode",
        "RBAC",
        "--service-account-issuer",
        "https://localhost",
        "--service-account-signing-key-file",
        &file("apiserver.key"),
        "--service-account-signing-key-file",
        &file("apiserver.key"),
        "--service-account-key-file",
        &file("apiserver.key"),
        "--service-account-issuer",
        &file("apiserver.crt"),
        "--disable-admission-plugins",
        "ServiceAccount",
        "--client-ca-file",
        &file("client.crt"),
        "--service-cluster-ip-range",
        "10.0.0.0/24",
        "--allow-privileged",
    ])
}

/// Writes the certificates and returns those of the server and of the user.
fn write_certificates(file: &dyn Fn(&str) -> String) -> (String, String) {
    let names = ["127.0.0.1", "kubernetes", "kubernetes.default.svc"];
    let server = certificate(&names, &[(DnType::CommonName, "example.org")]);
    let user = certificate(
        &[],
        &[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "kubeapitest"),
        ],
    );
    for (name, text) in [
        ("apiserver.crt", server.as_str()),
        ("apiserver.key", PKCS1),
        ("client.crt", &user),
        ("client.key", PKCS1),
    ] {
        std::fs::write(file(name), text).unwrap();
    }
    (server, user)
}

#[tokio::test]
async fn kube_api_test_starts_both_programs_and_a_suite_uses_them() {
    let programs = Programs::new();
    let folder = TempDir::new().unwrap();
    let [etcd_port, peer, port] = free_ports();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let url = format!("http://0.0.0.0:{etcd_port}");

    let arguments = etcd_arguments(&file, &url, peer);
    let mut etcd = programs.start("etcd", &arguments, &folder.path().join("etcd.log"));
    let plain = format!("http://127.0.0.1:{etcd_port}").parse().unwrap();
    let plain = kube_client::Client::try_from(kube_client::Config::new(plain)).unwrap();
    healthy(&mut etcd, &plain, "/health").await.unwrap();

    let (server_certificate, user_certificate) = write_certificates(&file);
    let arguments = server_arguments(&file, &url, port);
    let log = folder.path().join("kube-apiserver.log");
    let mut server = programs.start("kube-apiserver", &arguments, &log);
    let anonymous = client(port, &server_certificate, &json!({}));
    healthy(&mut server, &anonymous, "/readyz").await.unwrap();
    assert_eq!(ask_http1(port, &server_certificate, "/readyz").await, 200);
    assert_eq!(ask_http1(port, &server_certificate, CONFIG_MAPS).await, 403);

    let user = json!({
        "client-certificate-data": STANDARD.encode(&user_certificate),
        "client-key-data": STANDARD.encode(PKCS1),
    });
    let admin = client(port, &server_certificate, &user);
    until(&admin, "/api/v1/namespaces/default", Result::is_ok).await;
    post(&admin, CONFIG_MAPS, &config_map("a")).await.unwrap();
    get(&admin, &format!("{CONFIG_MAPS}/a")).await.unwrap();

    // It kills both, the server first.
    server.kill().await;
    etcd.kill().await;
}
