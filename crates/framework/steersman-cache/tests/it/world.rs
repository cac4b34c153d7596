//! A server, a cache over it, and functions that create objects.

use std::time::Duration;

use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions, Error};
use steersman_informer::{Delivery, Subscription};
use steersman_object::{Object, ObjectKey};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "web.example.com",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
pub(crate) struct WebsiteSpec {
    image: String,
}

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) cache: Cache,
    cancel: CancellationToken,
    running: Option<JoinHandle<Result<(), Error>>>,
}

/// The decoded budget of all tests, if an environment variable sets it to a number of bytes or `none`.
pub(crate) fn budget() -> Option<Option<usize>> {
    let named = std::env::var("STEERSMAN_TEST_BUDGET").ok()?;
    Some((named != "none").then(|| named.parse().unwrap()))
}

/// Returns whether a second read returns the same `Arc`, and not only an equal object.
pub(crate) fn shares() -> bool {
    budget() != Some(Some(0))
}

impl World {
    /// Creates a server with the namespaces `a` and `b`, and a cache that does not run yet.
    pub(crate) fn new(options: CacheOptions) -> Self {
        Self::under_own_budget(match budget() {
            Some(bytes) => options.decoded_budget(bytes),
            None => options,
        })
    }

    /// Creates the same world as [`new`](Self::new), with the budget of `options` regardless of the environment.
    pub(crate) fn under_own_budget(options: CacheOptions) -> Self {
        let server = ApiServer::new();
        for namespace in ["a", "b"] {
            create(&server, "v1", "Namespace", "", namespace, &json!({}));
        }
        let cache = Cache::new(options.seed(7)).unwrap();
        Self {
            server,
            cache,
            cancel: CancellationToken::new(),
            running: None,
        }
    }

    pub(crate) fn start(&mut self) {
        let client_config = ClientConfig::in_process(self.server.service(), "default");
        let run = self.cache.run(client_config, self.cancel.clone());
        self.running = Some(tokio::spawn(run));
    }

    /// Creates a world with a cache that runs and has synced.
    pub(crate) async fn synced(options: CacheOptions) -> Self {
        let mut world = Self::new(options);
        world.start();
        world.cache.wait_for_sync().await.unwrap();
        world
    }

    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        self.cancel.cancel();
        self.running.take().unwrap().await.unwrap()
    }

    pub(crate) fn config_map(&self, namespace: &str, name: &str, labels: &Value) {
        create(&self.server, "v1", "ConfigMap", namespace, name, labels);
    }

    pub(crate) fn service(&self, namespace: &str, name: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"ports": [{"port": 80}]},
        });
        self.server.create(object).unwrap();
    }

    pub(crate) fn website(&self, name: &str, image: &Value) {
        let object = json!({
            "apiVersion": "web.example.com/v1", "kind": "Website",
            "metadata": {"namespace": "a", "name": name}, "spec": {"image": image},
        });
        self.server.create(object).unwrap();
    }

    /// Installs a definition of Websites that accepts any spec.
    pub(crate) fn install_loose_websites(&self) {
        let mut crd = serde_json::to_value(Website::crd()).unwrap();
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything;
        self.server.install_crd(crd).unwrap();
    }

    pub(crate) fn install_websites(&self) {
        self.server
            .install_crd(serde_json::to_value(Website::crd()).unwrap())
            .unwrap();
    }
}

pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace, name)
}

/// Returns the namespace, label selector and field selector of each informer that requested a kind, ordered by
/// namespace.
pub(crate) fn asked(world: &World, resource: &str) -> Vec<String> {
    let requests = world.server.requests();
    let requests = requests.matching(|r| r.is_for(resource));
    let mut asked: Vec<String> = requests
        .iter()
        .map(|request| {
            let namespace = request.namespace.as_deref().unwrap_or("*");
            let parameter = |name| request.parameter(name).unwrap_or("");
            let (labels, fields) = (parameter("labelSelector"), parameter("fieldSelector"));
            format!("{namespace}[{labels}][{fields}]")
        })
        .collect();
    asked.sort();
    asked
}

/// Waits until the subscription delivers an event of this key.
pub(crate) async fn event_of<K: Object>(subscription: &mut Subscription<K>, key: &ObjectKey) {
    loop {
        match subscription.next().await.unwrap() {
            Delivery::Event(event) if event.key() == key => return,
            _ => {}
        }
    }
}

/// Counts the events up to the end of the initial set.
pub(crate) async fn initial<K: Object>(subscription: &mut Subscription<K>) -> usize {
    let mut events = 0;
    while let Delivery::Event(_) = subscription.next().await.unwrap() {
        events += 1;
    }
    events
}

/// Fails after a time limit, which also ends on a paused clock.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(600), what)
        .await
        .unwrap()
}

fn create(
    server: &ApiServer,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    labels: &Value,
) {
    let mut metadata = json!({"name": name, "labels": labels});
    if !namespace.is_empty() {
        metadata["namespace"] = Value::from(namespace);
    }
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    server.create(object).unwrap();
}
