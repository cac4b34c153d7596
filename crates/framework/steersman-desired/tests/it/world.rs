//! Helpers: a server, a running cache, a client for one reconcile key, and an owner.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube_core::ObjectMeta;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};
use steersman_apiserver::play::{Played, Speed};
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{Client, ClientOptions, RequestId};
use steersman_desired::{DesiredSet, SetOutcome};
use steersman_object::ObjectKey;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The label of the children in these tests.
pub(crate) const LABEL: &str = "example.com/children";

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) owner: ConfigMap,
    _running: DropGuard,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(CacheOptions::new(), ClientOptions::new()).await
    }

    pub(crate) async fn with(cache: CacheOptions, client: ClientOptions) -> Self {
        let played = Played::everything().speed(Speed::brisk());
        let server = ApiServer::builder().play(played).build();
        let client_config = ClientConfig::in_process(server.service(), "default");
        let idle = Cache::new(CacheOptions::new()).unwrap();
        let owner = Client::new(idle, client_config)
            .create(&config("owner"))
            .await;
        Self::over(server, owner.unwrap(), cache, client).await
    }

    /// Starts a program with an empty cache on an existing server.
    pub(crate) async fn over(
        server: ApiServer,
        owner: ConfigMap,
        cache: CacheOptions,
        client: ClientOptions,
    ) -> Self {
        let client_config = ClientConfig::in_process(server.service(), "default");
        let cache = Cache::new(cache.seed(7)).unwrap();
        let client = client.field_manager("tester");
        let client = Client::with_options(cache.clone(), client_config.clone(), client);
        let cancel = CancellationToken::new();
        tokio::spawn(cache.run(client_config.clone(), cancel.clone()));
        cache.informer::<ConfigMap>().unwrap();
        cache.informer::<Service>().unwrap();
        cache.informer::<Deployment>().unwrap();
        cache.informer::<Job>().unwrap();
        cache.wait_for_sync().await.unwrap();
        Self {
            client: client.for_request(RequestId::new("owners", key("owner"))),
            server,
            owner,
            _running: cancel.drop_guard(),
        }
    }

    /// Returns an empty set that declares all kinds of these tests.
    pub(crate) fn set(&self) -> DesiredSet {
        DesiredSet::new(&self.owner, LABEL)
            .owns::<ConfigMap>()
            .owns::<Service>()
            .owns::<Deployment>()
            .owns::<Job>()
    }

    pub(crate) async fn apply(&self, set: DesiredSet) -> SetOutcome {
        set.apply(&self.client).await.unwrap()
    }

    /// Applies the set of `make` repeatedly, as a controller does after events, until `is_over` returns true.
    pub(crate) async fn until(
        &self,
        make: impl Fn(&Self) -> DesiredSet,
        is_over: impl Fn(&SetOutcome) -> bool,
    ) {
        let _ = self.outcome_when(make, is_over).await;
    }

    /// Applies the set like [`until`](Self::until), and returns the last outcome.
    pub(crate) async fn outcome_when(
        &self,
        make: impl Fn(&Self) -> DesiredSet,
        is_over: impl Fn(&SetOutcome) -> bool,
    ) -> SetOutcome {
        for _ in 0..500 {
            let outcome = self.apply(make(self)).await;
            if is_over(&outcome) {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.apply(make(self)).await);
    }

    /// Returns the logged requests without watches.
    pub(crate) fn requests(&self) -> Vec<RequestRecord> {
        let log = self.server.requests();
        log.matching(|request| !request.does(Verb::Watch))
    }

    /// Returns the names of the objects with a controller.
    pub(crate) fn children(&self, resource: &str) -> Vec<String> {
        let objects = self.server.list(resource, "default").into_iter();
        let owned = objects.filter(|object| object["metadata"]["ownerReferences"].is_array());
        let mut names: Vec<String> = owned
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        self.server.get(resource, "default", name)
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(crate) fn config(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        ..ConfigMap::default()
    }
}

pub(crate) fn service(name: &str) -> Service {
    let service = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    });
    serde_json::from_value(service).unwrap()
}

pub(crate) fn deployment(name: &str) -> Deployment {
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    serde_json::from_value(deployment).unwrap()
}

pub(crate) fn job(name: &str) -> Job {
    let job = json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "work", "image": "work:1"}],
        }}},
    });
    serde_json::from_value(job).unwrap()
}

pub(crate) async fn pods(world: &World) -> usize {
    let all = steersman_object::ListOptions::new().namespace("default");
    world.client.live().list::<Pod>(&all).await.unwrap().len()
}
