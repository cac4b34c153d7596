//! Tests webhooks over HTTPS in real time: certificates, other clients and metrics.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use prometheus::{Encoder as _, TextEncoder};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use steersman_object::ObjectKey;
use steersman_serve::{TlsOptions, dial_tls};
use steersman_webhook::{AdmissionContext, BuiltInCertificates, Refusal, Validator, WebhookServer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{Running, Site, World, site};

struct Rules;

impl Validator<Site> for Rules {
    async fn validate_create(&self, new: &Site, _: &AdmissionContext) -> Result<(), Refusal> {
        match new.spec.host.as_str() {
            "bad" => Err(Refusal::denied("not this host")),
            _ => Ok(()),
        }
    }

    async fn validate_update(
        &self,
        _: &Site,
        _: &Site,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

const PATH: &str = "/validate-example-com-v1-site";

/// Writes a self-signed certificate into a directory, and returns the certificate.
fn certify(directory: &Path) -> String {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    std::fs::write(directory.join("tls.crt"), &certificate).unwrap();
    certificate
}

async fn serve(directory: &Path) -> Running {
    let webhooks = WebhookServer::new("127.0.0.1:0")
        .tls(TlsOptions::directory(directory).http2(true))
        .validator::<Site>(Rules);
    Running::serve(&webhooks).await
}

fn configure(world: &World, running: &Running, authority: &str) {
    let url = format!("https://{}{PATH}", running.address);
    world.configure(
        PATH,
        &json!({"url": url, "caBundle": STANDARD.encode(authority)}),
    );
}

#[tokio::test]
async fn an_api_server_calls_a_webhook_over_https_and_the_metrics_count_it() {
    let directory = tempfile::tempdir().unwrap();
    let authority = certify(directory.path());
    let running = serve(directory.path()).await;
    let world = World::new();
    configure(&world, &running, &authority);
    assert_eq!(
        world.create(&site("a", &json!({"host": "a"}))).await.code,
        201
    );
    let refused = world.create(&site("b", &json!({"host": "bad"}))).await;
    assert_eq!(refused.code, 403, "{}", refused.body);

    let mut text = Vec::new();
    TextEncoder::new()
        .encode(&running.registry.gather(), &mut text)
        .unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/validate-example-com-v1-site\"} 1",
        "controller_runtime_webhook_requests_total{code=\"403\",webhook=\"/validate-example-com-v1-site\"} 1",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/validate-example-com-v1-site\"} 0",
        "controller_runtime_webhook_panics_total 0",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    running.stop.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_replaced_certificate_is_used_and_a_foreign_one_is_refused_by_the_api_server() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path());
    let running = serve(directory.path()).await;
    let second = certify(directory.path());
    let world = World::new();
    configure(&world, &running, &second);
    assert_eq!(
        world.create(&site("a", &json!({"host": "a"}))).await.code,
        201
    );

    certify(directory.path());
    // A new world is needed, because the connections of the first world were verified already.
    let world = World::new();
    configure(&world, &running, &second);
    let refused = world.create(&site("b", &json!({"host": "b"}))).await;
    assert_eq!(refused.code, 500);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("certificate"), "{message}");
}

/// ADMIT-5: readiness needs a server that answers a TLS handshake.
#[tokio::test]
async fn half_a_handshake_does_not_keep_others_from_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let authority = certify(directory.path());
    let running = serve(directory.path()).await;
    let mut half = TcpStream::connect(running.address).await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
        .await
        .unwrap();
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"POST / HTTP/1.1\r\n\r\n").await.unwrap();
    dial_tls(running.address, Timestamp::now()).await.unwrap();
    let world = World::new();
    configure(&world, &running, &authority);
    assert_eq!(
        world.create(&site("a", &json!({"host": "a"}))).await.code,
        201
    );
    running.stop.cancel();
    running.task.await.unwrap();
    assert!(dial_tls(running.address, Timestamp::now()).await.is_err());
}

#[test]
fn a_built_in_authority_leaves_the_other_settings_of_tls_as_they_are() {
    let key = |name| ObjectKey::namespaced("shop", name);
    let webhooks = WebhookServer::new("0")
        .tls(TlsOptions::self_signed().client_ca("/certs/ca.crt"))
        .certificates(BuiltInCertificates::new(key("certificates"), key("hooks")));
    assert!(webhooks.tls_options().has_client_ca());
}
