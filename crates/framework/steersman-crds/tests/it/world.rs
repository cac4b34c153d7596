//! Helpers: a server, definitions of a kind in several versions, and objects of the kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_crds::{Crd, Crds};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub(crate) const NAME: &str = "sites.example.com";

pub(crate) fn connect(server: &ApiServer) -> ClientConfig {
    ClientConfig::in_process(server.service(), "default").user_agent("sites", "1")
}

/// Returns a connection that cancels `stop` at its request number `requests`, which may be lost.
pub(crate) fn connect_until(
    server: &ApiServer,
    requests: usize,
    stop: &CancellationToken,
) -> ClientConfig {
    let (count, stop) = (Arc::new(AtomicUsize::new(0)), stop.clone());
    connect(server).layer(MapRequestLayer::new(move |request| {
        if count.fetch_add(1, Ordering::SeqCst) + 1 == requests {
            stop.cancel();
        }
        request
    }))
}

/// Returns a version of a definition with these string fields.
pub(crate) fn version(name: &str, is_stored: bool, fields: &[&str]) -> Value {
    let fields = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!({"type": "string"})));
    let fields: serde_json::Map<String, Value> = fields.collect();
    let spec = json!({"type": "object", "properties": fields});
    json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": spec},
    }}})
}

pub(crate) fn definition(versions: &[Value]) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"},
            "scope": "Namespaced",
            "versions": versions,
        },
    }))
    .unwrap()
}

/// Returns the definition of the first release, with v1alpha1 as its stored version.
pub(crate) fn first_release() -> CustomResourceDefinition {
    definition(&[version("v1alpha1", true, &["host"])])
}

/// Returns the definition of the second release, with v1 as its stored version.
pub(crate) fn second_release() -> CustomResourceDefinition {
    definition(&[
        version("v1alpha1", false, &["host"]),
        version("v1", true, &["host"]),
    ])
}

pub(crate) fn create_sites(server: &ApiServer, number: usize) {
    for site in 0..number {
        let name = format!("site-{site}");
        let site = json!({"apiVersion": "example.com/v1alpha1", "kind": "Site",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"host": name}});
        server.create(site).unwrap();
    }
}

/// Returns the number of sites that are stored in a version.
pub(crate) fn stored_in(server: &ApiServer, version: &str) -> usize {
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    let snapshot: Value = serde_json::from_slice(&text).unwrap();
    let storages = snapshot["objects"].as_object().unwrap();
    let objects = storages
        .values()
        .flat_map(|objects| objects.as_array().unwrap());
    let version = format!("example.com/{version}");
    objects
        .filter(|object| object["kind"] == "Site" && object["apiVersion"] == *version)
        .count()
}

pub(crate) fn present(server: &ApiServer) -> Value {
    server.get(DEFINITIONS, "", NAME).unwrap()
}

pub(crate) fn stored_versions(server: &ApiServer) -> Value {
    present(server)["status"]["storedVersions"].clone()
}

/// Returns the number of writes of definitions since the log was cleared.
pub(crate) fn writes(server: &ApiServer) -> usize {
    server.requests().count(|request| {
        request.is_for(DEFINITIONS)
            && [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete]
                .iter()
                .any(|verb| request.does(*verb))
    })
}

/// How long an installation may take in a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Installs a definition on a server.
pub(crate) async fn install(server: &ApiServer, definition: impl Into<Crd>) {
    let definitions = Crds::new().with(definition);
    definitions.install(&connect(server), LIMIT).await.unwrap();
}
