//! A server, a cache that runs over it, and a client.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::ObjectMeta;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{Client, ClientOptions};
use steersman_informer::{Delivery, Subscription};
use steersman_object::{Object, ObjectKey, TypedObject};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    _running: DropGuard,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(CacheOptions::new(), ClientOptions::new())
    }

    pub(crate) fn with(cache: CacheOptions, client: ClientOptions) -> Self {
        let server = ApiServer::new();
        let client_config = ClientConfig::in_process(server.service(), "default");
        Self::over(server, client_config, cache, client)
    }

    /// Makes a world of an existing server.
    pub(crate) fn over(
        server: ApiServer,
        client_config: ClientConfig,
        cache: CacheOptions,
        client: ClientOptions,
    ) -> Self {
        let cache = Cache::new(cache.seed(7)).unwrap();
        let cancel = CancellationToken::new();
        tokio::spawn(cache.run(client_config.clone(), cancel.clone()));
        let client = Client::with_options(cache, client_config, client);
        Self {
            server,
            client,
            _running: cancel.drop_guard(),
        }
    }

    /// Declares a kind and waits until it is cached.
    pub(crate) async fn cached<K: TypedObject>(&self) -> Subscription<K> {
        let subscription = self.client.cache().informer::<K>().unwrap().subscribe();
        self.client.cache().wait_for_sync().await.unwrap();
        subscription
    }

    /// Returns the number of requests with these verbs.
    pub(crate) fn count(&self, verbs: &[Verb]) -> usize {
        self.server
            .requests()
            .count(|r| verbs.iter().any(|v| r.does(*v)))
    }

    pub(crate) fn writes(&self) -> Vec<RequestRecord> {
        let reads = [Verb::Get, Verb::List, Verb::Watch];
        self.server
            .requests()
            .matching(|r| !reads.iter().any(|v| r.does(*v)))
    }
}

pub(crate) fn config(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// Sets one entry of the data.
pub(crate) fn set(config: &mut ConfigMap, name: &str, value: &str) {
    config
        .data
        .get_or_insert_default()
        .insert(name.to_owned(), value.to_owned());
}

/// Waits until the cache has an object with this key for which `fits` returns true.
pub(crate) async fn until<K: Object>(
    subscription: &mut Subscription<K>,
    key: &ObjectKey,
    fits: impl Fn(&K) -> bool,
) -> Arc<K> {
    loop {
        let Delivery::Event(event) = subscription.next().await.unwrap() else {
            continue;
        };
        let body = event.entry().object();
        if event.key() == key && !event.is_delete() && fits(&body) {
            return body;
        }
    }
}
