//! A running operator, and a client that reads from the server instead of the cache.

use std::collections::BTreeMap;
use std::time::Duration;

use example_program::once::is_ready;
use steersman::CancellationToken;
use steersman::cache::{Cache, CacheOptions};
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::TypedObject;
use steersman::status_conditions::{self, HasConditions as _, READY};
use steersman::{Client, ClientConfig, Manager, ObjectKey};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::Authorization;
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::{TestEnv, eventually};
use tokio::task::JoinHandle;
use website_operator::controller;
use website_operator::website::{Website, WebsiteSpec};

pub(crate) const PAGES: &str = "hello-pages";

/// Returns a server that plays the controllers of Deployments and the kubelets.
pub(crate) fn simulator() -> ApiServer {
    ApiServer::builder()
        .authorization(Authorization::Rbac)
        .play(Played::everything().speed(Speed::brisk()))
        .build()
}

/// Makes an environment with a [`simulator`] in this process.
pub(crate) fn played() -> TestEnv {
    TestEnv::of(simulator())
}

/// One operator with a namespace of its own.
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    pub(crate) namespace: String,
    cancel: CancellationToken,
    manager: JoinHandle<Result<(), steersman::manager::Error>>,
}

impl World {
    pub(crate) async fn start(env: TestEnv) -> Self {
        Self::with(env, CacheOptions::new(), |_| ()).await
    }

    /// Starts an operator with further controllers in its manager.
    pub(crate) async fn with(
        env: TestEnv,
        options: CacheOptions,
        also: impl FnOnce(&Manager),
    ) -> Self {
        let client_config = match env.config() {
            Some(config) => ClientConfig::from_config(config.clone()),
            None => ClientConfig::in_process(env.server().unwrap().service(), "default"),
        };
        // The cache of this client never runs; the client is used for live reads and writes.
        let idle = Cache::new(CacheOptions::new()).unwrap();
        let client = Client::new(idle, client_config.clone());
        let definition = Website::crd();
        let installed = client.install(&definition, Duration::from_secs(30)).await;
        installed.unwrap();
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some("website-".to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespace = client
            .create(&namespace)
            .await
            .unwrap()
            .metadata
            .name
            .unwrap();

        let mut builder = Manager::builder(client_config).cache(options);
        if let Some(server) = env.server().cloned() {
            // The server and the operator share one wall clock, which the paused clock advances.
            builder = builder.clock(move || server.now());
        }
        let manager = builder.build().unwrap();
        controller::declare(&manager).unwrap();
        also(&manager);
        let cache = manager.cache().clone();
        let cancel = CancellationToken::new();
        let shutdown = cancel.clone();
        let manager = tokio::spawn(async move { manager.start(shutdown).await });
        Self {
            env,
            client,
            cache,
            namespace,
            cancel,
            manager,
        }
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    /// Creates the pages and the site `hello`, and waits until it is served.
    pub(crate) async fn serve_hello(&self) -> Website {
        self.create_hello().await;
        self.served(2).await
    }

    /// Creates the pages and the site `hello`.
    pub(crate) async fn create_hello(&self) {
        self.client.create(&self.pages("hi")).await.unwrap();
        self.create_hello_site().await;
    }

    pub(crate) async fn create_hello_site(&self) {
        let spec = WebsiteSpec {
            image: "nginx:1.29".into(),
            replicas: 2,
            pages: PAGES.into(),
            host: None,
        };
        let mut site = Website::new("hello", spec);
        site.metadata.namespace = Some(self.namespace.clone());
        self.client.create(&site).await.unwrap();
    }

    pub(crate) fn pages(&self, text: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(PAGES.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("index.html".to_owned(), text.to_owned())])),
            ..ConfigMap::default()
        }
    }

    /// Waits until `hello` is ready with `replicas` Pods.
    pub(crate) async fn served(&self, replicas: i32) -> Website {
        let served = eventually("hello is served", || async move {
            let site = self
                .read::<Website>("hello")
                .await
                .ok_or("there is no site")?;
            let ready = site.status.as_ref().map(|s| s.ready_replicas);
            if is_ready(&site) && ready == Some(replicas) {
                Ok(site)
            } else {
                Err(format!("{:?}", site.status))
            }
        });
        served.await.unwrap()
    }

    /// Reads an object from the server.
    pub(crate) async fn read<K: TypedObject>(&self, name: &str) -> Option<K> {
        self.client.live().get_opt(&self.key(name)).await.unwrap()
    }

    /// Waits until an object exists and `holds` returns true for it.
    pub(crate) async fn until<K: TypedObject>(&self, name: &str, holds: impl Fn(&K) -> bool) -> K {
        let holds = &holds;
        let found = eventually(name, || async move {
            match self.read::<K>(name).await {
                Some(object) if holds(&object) => Ok(object),
                Some(object) => Err(format!("{object:?}")),
                None => Err("there is none".to_owned()),
            }
        });
        found.await.unwrap()
    }

    pub(crate) async fn until_gone<K: TypedObject>(&self, name: &str) {
        let gone = eventually(name, || async move {
            match self.read::<K>(name).await {
                None => Ok(()),
                Some(object) => Err(format!("still there: {object:?}")),
            }
        });
        gone.await.unwrap();
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let ours = steersman::cache::ListOptions::new().namespace(&self.namespace);
        self.client.live().list::<Pod>(&ours).await.unwrap()
    }

    /// Waits until the cache holds the same objects as the server, at the same versions.
    pub(crate) async fn cache_equals_server(&self) {
        self.kind_equals_server::<Website>().await;
        self.kind_equals_server::<ConfigMap>().await;
        self.kind_equals_server::<Deployment>().await;
        self.kind_equals_server::<Service>().await;
    }

    async fn kind_equals_server<K: TypedObject>(&self) {
        let all = steersman::cache::ListOptions::new();
        let all = &all;
        let equal = eventually("the cache equals the server", || async move {
            let cached = self.cache.list::<K>(all).await.unwrap();
            let cached = versions(cached.iter().map(|object| &**object));
            let live = self.client.live().list::<K>(all).await.unwrap();
            let live = versions(live.iter());
            if cached == live {
                Ok(())
            } else {
                Err(format!("cache {cached:?}, server {live:?}"))
            }
        });
        equal.await.unwrap();
    }

    /// Stops the operator, and fails if it failed.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.manager.await.unwrap().unwrap();
        if self.env.has_controllers() {
            let key = ObjectKey::cluster_scoped(&self.namespace);
            self.client.delete_key::<Namespace>(&key).await.unwrap();
        }
    }
}

/// Returns the condition `Ready` of a website.
pub(crate) fn ready(site: &Website) -> Option<&Condition> {
    status_conditions::find(site.conditions(), READY)
}

fn versions<'a, K: TypedObject>(
    objects: impl Iterator<Item = &'a K>,
) -> BTreeMap<ObjectKey, (String, String)> {
    objects
        .map(|object| {
            let version = object.stored_version().to_string();
            (object.key(), (object.uid_str().to_owned(), version))
        })
        .collect()
}
