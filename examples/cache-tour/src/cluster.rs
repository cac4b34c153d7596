//! Handle: the cluster of the tour: an API server in this process, and caches of its objects.

use k8s_openapi::api::core::v1::Pod;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use steersman::CancellationToken;
use steersman::cache::{Cache, CacheOptions, Settings};
use steersman::{ClientConfig, Kind};
use steersman_testenv::apiserver::ApiServer;
use tokio::task::JoinHandle;

use crate::BoxError;
use crate::asked::table;
use crate::page::{Page, Table};

/// Counts the bytes that this process has allocated.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The namespaces that have Pods.
pub(crate) const NAMESPACES: [&str; 3] = ["batch", "shop", "web"];
/// The number of Pods in each of these namespaces.
pub(crate) const PODS_EACH: usize = 150;
pub(crate) const PODS: usize = PODS_EACH * NAMESPACES.len();
/// The number of nodes that the Pods run on.
pub(crate) const NODES: usize = 30;

/// A server with Pods on it.
#[derive(Debug)]
pub(crate) struct Cluster {
    server: ApiServer,
}

/// A running cache, with its requests and its memory.
#[derive(Debug)]
#[must_use = "an opened cache is there to be reported"]
pub(crate) struct Opened {
    pub(crate) cache: Cache,
    server: ApiServer,
    /// The bytes that the process had allocated before the cache was opened.
    before: usize,
    cancel: CancellationToken,
    running: JoinHandle<Result<(), steersman::cache::Error>>,
}

// ===== impl Cluster =====

impl Cluster {
    /// Makes a server with [`PODS`] Pods.
    ///
    /// # Errors
    ///
    /// An error if the server refuses a Pod.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the server.
    pub(crate) async fn filled() -> Result<Self, BoxError> {
        let server = ApiServer::new();
        for namespace in NAMESPACES {
            server.create(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }))?;
            let set = server.create(replica_set(namespace))?;
            for number in 0..PODS_EACH {
                server.create(pod(namespace, number, &set))?;
            }
        }
        let cluster = Self { server };
        // Opens and closes a cache once before the measurements, because the server allocates
        // memory for its first watch.
        for keep in [false, true] {
            let settings = Settings::new().keep_managed_fields(keep);
            let options = CacheOptions::new().defaults(settings);
            let opened = cluster.open(options, |cache| cache.informer::<Pod>().map(drop));
            opened.await?.close().await?;
        }
        Ok(cluster)
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Opens a cache, in which `declare` declares the kinds, and waits until every kind has synced or failed to sync.
    ///
    /// # Errors
    ///
    /// The error of the cache or of `declare`.
    pub(crate) async fn open(
        &self,
        options: CacheOptions,
        declare: impl FnOnce(&Cache) -> Result<(), steersman::cache::Error>,
    ) -> Result<Opened, BoxError> {
        self.server.requests().clear();
        let before = ALLOCATED.current_usage();
        let client_config = ClientConfig::in_process(self.server.service(), "default");
        // The seed fixes random choices, such as the pause before a retry.
        let cache = Cache::new(options.seed(1))?;
        declare(&cache)?;
        let cancel = CancellationToken::new();
        let running = tokio::spawn(cache.run(client_config, cancel.clone()));
        cache.settled().await;
        Ok(Opened {
            cache,
            server: self.server.clone(),
            before,
            cancel,
            running,
        })
    }
}

// ===== impl Opened =====

impl Opened {
    /// Returns the requests that the server received since the cache was opened.
    pub(crate) fn asked(&self) -> Table {
        table(&self.server.requests().all())
    }

    /// Returns the number of requests that the server received since the cache was opened.
    pub(crate) fn requests(&self) -> usize {
        self.server.requests().all().len()
    }

    /// Returns the number of bytes by which the process has grown since the cache was opened.
    pub(crate) fn held(&self) -> usize {
        ALLOCATED.current_usage().saturating_sub(self.before)
    }

    /// Returns the number of Pods that the cache holds.
    ///
    /// # Errors
    ///
    /// An error if the cache has stopped.
    pub(crate) fn pods(&self) -> Result<usize, BoxError> {
        let informers = self.cache.informers::<Pod>()?;
        Ok(informers.iter().map(|pods| pods.store().len()).sum())
    }

    /// Adds the requests and the held bytes to a page.
    pub(crate) fn report(&self, page: Page, objects: usize) -> Page {
        let held = Table::new(["held in memory", "objects", "KiB"]).row([
            &"pods",
            &format!("{objects} of {PODS}"),
            &(self.held() / 1024),
        ]);
        page.table(&self.asked()).table(&held)
    }

    /// Stops the cache, and waits until its memory is freed.
    ///
    /// # Errors
    ///
    /// The error that ended the cache.
    pub(crate) async fn close(self) -> Result<(), BoxError> {
        self.cancel.cancel();
        self.running.await??;
        Ok(())
    }
}

/// Returns the kind Pod, which most stops use.
pub(crate) fn pods() -> Kind {
    Kind::of::<Pod>()
}

fn replica_set(namespace: &str) -> Value {
    let labels = json!({"app": namespace});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": namespace, "name": namespace},
        "spec": {
            "replicas": PODS_EACH,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
            },
        },
    })
}

/// Returns a typical Pod: two containers with limits, probes and volumes, and a status.
fn pod(namespace: &str, number: usize, owner: &Value) -> Value {
    let tier = if number.is_multiple_of(3) {
        "front"
    } else {
        "back"
    };
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/{namespace}/{name}:1.29.4"),
            "args": ["--config=/etc/service/config.yaml", "--listen=:8080"],
            "env": [
                {"name": "REGION", "value": "eu-central-1"},
                {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "service", "key": "token"}}},
            ],
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/service", "readOnly": true}],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": format!("{namespace}-{number:03}"),
            "labels": {"app": namespace, "tier": tier, "app.kubernetes.io/part-of": "tour"},
            "annotations": {"example.com/config-hash": format!("{number:064x}")},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", number % NODES),
            "containers": [container("main"), container("proxy")],
            "volumes": [{"name": "config", "configMap": {"name": "service"}}],
        },
        "status": {"phase": "Pending"},
    })
}
