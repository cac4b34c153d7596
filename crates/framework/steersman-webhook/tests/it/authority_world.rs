//! Helpers: a server with the objects of the built-in authority, the loops of replicas, and checks of the state.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_object::ObjectKey;
use steersman_serve::SharedCertificate;
use steersman_testenv::eventually;
use steersman_webhook::BuiltInCertificates;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use x509_parser::pem::Pem;

use crate::world::definition;

pub(crate) const SECRETS: &str = "secrets";
pub(crate) const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
pub(crate) const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub(crate) const DEFINITION: &str = "colours.example.com";
/// A time in which a rotation of the authority is complete.
pub(crate) const ROTATION: Duration = Duration::from_secs(1800);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A running loop of one replica. Dropping it stops the loop.
pub(crate) struct Loop {
    pub(crate) task: JoinHandle<()>,
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn connect(server: &ApiServer) -> ClientConfig {
    ClientConfig::in_process(server.service(), "shop").user_agent("hooks", "1")
}

pub(crate) fn follow(server: &ApiServer, options: &BuiltInCertificates) -> Loop {
    let (client_config, options) = (connect(server), options.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(async move { options.follow(&client_config, stop).await });
    Loop { task }
}

pub(crate) fn lead(server: &ApiServer, options: &BuiltInCertificates) -> Loop {
    let (client_config, options) = (connect(server), options.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(async move { options.lead(&client_config, stop).await });
    Loop { task }
}

pub(crate) fn options(server: &ApiServer) -> BuiltInCertificates {
    let key = |name| ObjectKey::namespaced("shop", name);
    let clock = server.clone();
    BuiltInCertificates::new(key("certificates"), key("hooks"))
        .inject_into_validating("hooks")
        .inject_into_mutating("hooks")
        .inject_into_definition(DEFINITION)
        .overlap(Duration::from_secs(30))
        .clock(move || clock.now())
}

pub(crate) fn configuration(kind: &str) -> Value {
    let service = json!({"namespace": "shop", "name": "hooks"});
    let webhook = |name: &str| {
        json!({
            "name": name,
            "clientConfig": {"service": service},
            "rules": [{
                "operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
                "resources": ["sites"],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "hooks"},
        "webhooks": [webhook("one.example.com"), webhook("two.example.com")],
    })
}

pub(crate) fn namespace(server: &ApiServer) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    server.create(namespace).unwrap();
}

/// Creates the namespace, both webhook configurations, and a definition with a conversion webhook.
pub(crate) fn install(server: &ApiServer) {
    namespace(server);
    server
        .create(configuration("ValidatingWebhookConfiguration"))
        .unwrap();
    server
        .create(configuration("MutatingWebhookConfiguration"))
        .unwrap();
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }}})
    };
    let mut colours = definition("Colour", &[version("v1", true), version("v1beta1", false)]);
    colours["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"service": {"namespace": "shop", "name": "hooks", "path": "/convert"}},
        "conversionReviewVersions": ["v1"],
    }});
    server.create(colours).unwrap();
}

pub(crate) fn secret(server: &ApiServer) -> Option<Value> {
    server.get(SECRETS, "shop", "certificates")
}

/// Returns the text of a key in the Secret; empty if the Secret is missing.
pub(crate) fn text(server: &ApiServer, key: &str) -> String {
    decoded(&secret(server).unwrap_or_default()["data"][key])
}

pub(crate) fn decoded(value: &Value) -> String {
    let text = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
    String::from_utf8(text).unwrap()
}

pub(crate) fn phase(server: &ApiServer) -> String {
    let secret = secret(server).unwrap_or_default();
    let phase = &secret["metadata"]["annotations"]["steersman/rotation-phase"];
    phase.as_str().unwrap_or_default().to_owned()
}

/// Changes keys of the Secret; null removes a key.
pub(crate) fn damage(server: &ApiServer, data: &Value) {
    let patch = json!({"data": data});
    server
        .merge_patch(SECRETS, "shop", "certificates", &patch)
        .unwrap();
}

/// Returns the CA bundle of each webhook in the existing configurations and definitions.
pub(crate) fn bundles(server: &ApiServer) -> Vec<String> {
    let mut found = Vec::new();
    for resource in [VALIDATING, MUTATING] {
        let object = server.get(resource, "", "hooks").unwrap_or_default();
        for webhook in object["webhooks"].as_array().into_iter().flatten() {
            found.push(decoded(&webhook["clientConfig"]["caBundle"]));
        }
    }
    if let Some(definition) = server.get(DEFINITIONS, "", DEFINITION) {
        let webhook = &definition["spec"]["conversion"]["webhook"];
        found.push(decoded(&webhook["clientConfig"]["caBundle"]));
    }
    found
}

pub(crate) fn roots(bundle: &str) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let authority = authority.map_err(|error| error.to_string())?;
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    Ok(Arc::new(roots))
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Verifies a certificate chain for the names of the Service.
pub(crate) fn verify(chain: &str, bundle: &str, now: Timestamp) -> Result<(), String> {
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes());
    let leaf = leaf.map_err(|error| format!("the certificate: {error}"))?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(bundle)?, provider()).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap());
    let now = UnixTime::since_unix_epoch(now);
    for name in [
        "hooks.shop.svc", "hooks.shop", "hooks.shop.svc.cluster.local",
    ] {
        let name = ServerName::try_from(name).unwrap();
        let verified = verifier.verify_server_cert(&leaf, &[], &name, &[], now);
        verified.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns an error unless every bundle trusts the serving certificate in the Secret.
pub(crate) fn trusted(server: &ApiServer) -> Result<(), String> {
    let chain = text(server, "tls.crt");
    for bundle in bundles(server) {
        verify(&chain, &bundle, server.now())?;
    }
    Ok(())
}

/// Returns whether a private key in PEM belongs to the first certificate of a bundle.
pub(crate) fn is_key_of(key: &str, bundle: &str) -> bool {
    let first = Pem::iter_from_buffer(bundle.as_bytes()).next();
    let (Ok(key), Some(Ok(first))) = (KeyPair::from_pem(key), first) else {
        return false;
    };
    let certificate = first.parse_x509().unwrap();
    certificate.public_key().raw == key.subject_public_key_info()
}

/// Returns an error unless the Secret is whole, no rotation is in progress, and every bundle equals that of the Secret.
pub(crate) fn settled(server: &ApiServer) -> Result<(), String> {
    if phase(server) != "steady" {
        return Err(format!("the phase is {:?}", phase(server)));
    }
    let pair = SharedCertificate::new().set(text(server, "tls.crt"), text(server, "tls.key"));
    pair.map_err(|error| error.to_string())?;
    let bundle = text(server, "ca.crt");
    if !text(server, "next-ca.key").is_empty() || !is_key_of(&text(server, "ca.key"), &bundle) {
        return Err("the key of the authority is another one".to_owned());
    }
    if bundles(server).iter().any(|injected| *injected != bundle) {
        return Err("a bundle is another one".to_owned());
    }
    trusted(server)
}

pub(crate) async fn until_settled(server: &ApiServer) {
    let mut last = settled(server);
    for _ in 0..ROTATION.as_secs() {
        if last.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        last = settled(server);
    }
    last.unwrap();
}

pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let check = || ready(if holds() { Ok(()) } else { Err(String::new()) });
    eventually(what, check).await.unwrap();
}
