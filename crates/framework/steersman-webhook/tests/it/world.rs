//! Helpers: an API server with a definition and its webhooks, and requests to the server.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use kube_derive::CustomResource;
use prometheus::Registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_serve::Server;
use steersman_webhook::{InProcessWebhooks, WebhookMetrics, WebhookServer};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The spec of an earlier version of the program, which lacks some fields of the definition.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(crates(kube_core = "kube_core"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteSpec {
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) pages: Vec<Page>,
}

#[derive(Serialize, Deserialize, Clone, Debug, JsonSchema, PartialEq)]
pub(crate) struct Page {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
}

pub(crate) struct World {
    pub(crate) server: ApiServer,
}

/// A webhook server that runs over HTTPS.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn serve(webhooks: &WebhookServer) -> Self {
        let registry = Registry::new();
        let metrics = WebhookMetrics::register(&registry).unwrap();
        let options = webhooks.server_options(webhooks.tls_options().clone());
        let server = Server::bind("webhook", webhooks.address(), options);
        let server = server.await.unwrap();
        let (address, stop) = (server.local_address(), CancellationToken::new());
        let routes = webhooks.routes_with(&metrics).unwrap();
        let task = tokio::spawn(server.run(routes, stop.clone()));
        Self {
            address,
            registry,
            stop,
            task,
        }
    }
}

/// The response to a request that the API server has answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

pub(crate) const SITES: &str = "/apis/example.com/v1/namespaces/default/sites";

impl World {
    /// Makes a server that calls these webhooks in process for each write of a site.
    pub(crate) fn calling(webhooks: &WebhookServer) -> Self {
        let world = Self::new();
        let service: InProcessWebhooks = webhooks.in_process().unwrap();
        world.server.route_service_to("hooks", "hooks", service);
        for path in webhooks.paths() {
            world.configure(
                &path,
                &json!({"service": {
                    "namespace": "hooks", "name": "hooks", "path": path,
                }}),
            );
        }
        world
    }

    /// Makes a server with the definition of sites.
    pub(crate) fn new() -> Self {
        let server = ApiServer::new();
        server
            .create(definition("Site", &[json!({"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }})]))
            .unwrap();
        Self { server }
    }

    /// Configures the webhook at a path: a mutating one if the path says so, otherwise a validating one.
    pub(crate) fn configure(&self, path: &str, client_config: &Value) {
        let kind = match path.contains("mutate") {
            true => "MutatingWebhookConfiguration",
            false => "ValidatingWebhookConfiguration",
        };
        let name = path.trim_start_matches('/');
        self.server
            .create(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "webhooks": [{
                    "name": format!("{name}.example.com"),
                    "clientConfig": client_config,
                    "rules": [{
                        "operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
                        "resources": ["sites"],
                    }],
                    "timeoutSeconds": 5,
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }],
            }))
            .unwrap();
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let response = self.server.service().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings
            .map(|text| text.to_str().unwrap().to_owned())
            .collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer {
            code,
            body: serde_json::from_slice(&body).unwrap(),
            warnings,
        }
    }

    pub(crate) async fn create(&self, site: &Value) -> Answer {
        self.send(Method::POST, SITES, site).await
    }
}

pub(crate) fn site(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec})
}

/// Returns a definition of a kind in the group `example.com`.
pub(crate) fn definition(kind: &str, versions: &[Value]) -> Value {
    let singular = kind.to_lowercase();
    let (plural, list_kind) = (format!("{singular}s"), format!("{kind}List"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": list_kind},
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}
