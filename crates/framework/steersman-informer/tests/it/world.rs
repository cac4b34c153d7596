//! The embedded server and an informer of one of its kinds.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::{ApiListWatch, ClientConfig};
use steersman_apiserver::ApiServer;
use steersman_informer::{Delivery, Event, Informer, InformerOptions, Subscription};
use steersman_object::{Kind, Object};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const MAPS: &str = "configmaps";

/// An informer of a kind of the embedded server, running until it is dropped.
pub(crate) struct World<K> {
    pub(crate) server: ApiServer,
    pub(crate) informer: Informer<K>,
    _stop: DropGuard,
}

pub(crate) fn server() -> ApiServer {
    ApiServer::builder().seed(1).build()
}

impl<K: Object> World<K> {
    pub(crate) fn start(server: &ApiServer, kind: Kind, options: InformerOptions) -> Self {
        let client_config = ClientConfig::in_process(server.service(), "default");
        Self::over(&client_config, server, kind, options)
    }

    pub(crate) fn over(
        client_config: &ClientConfig,
        server: &ApiServer,
        kind: Kind,
        options: InformerOptions,
    ) -> Self {
        let client = client_config.client().unwrap();
        let informer = Informer::new(kind.clone(), options);
        let cancel = CancellationToken::new();
        let namespace = Some("default".to_owned());
        let list_watch = ApiListWatch::new(client, kind, namespace);
        tokio::spawn(informer.run(list_watch, cancel.clone()));
        Self {
            server: server.clone(),
            informer,
            _stop: cancel.drop_guard(),
        }
    }

    /// Returns name and version of each stored object.
    pub(crate) fn stored(&self) -> Vec<String> {
        let entries = self.informer.store().entries(None);
        let named = entries.iter();
        named
            .map(|e| format!("{}@{}", e.key().name(), e.version()))
            .collect()
    }

    /// Returns name and version of each object on the server.
    pub(crate) fn served(&self, resource: &str) -> Vec<String> {
        let mut objects: Vec<String> = self
            .server
            .list(resource, "default")
            .iter()
            .map(|object| {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                format!("{}@{}", text("name"), text("resourceVersion"))
            })
            .collect();
        objects.sort();
        objects
    }

    /// Waits, on the paused clock, until the store equals the server.
    pub(crate) async fn converged(&self, resource: &str) {
        let waits = async {
            let mut pause = std::time::Duration::from_millis(1);
            while self.stored() != self.served(resource) {
                tokio::time::sleep(pause).await;
                pause = pause * 3 / 2;
            }
        };
        let hour = std::time::Duration::from_secs(3600);
        if tokio::time::timeout(hour, waits).await.is_err() {
            panic!(
                "stored {:?}, served {:?}, {}",
                self.stored(),
                self.served(resource),
                self.informer.state()
            );
        }
    }
}

impl World<ConfigMap> {
    pub(crate) fn of_maps(server: &ApiServer, options: InformerOptions) -> Self {
        Self::start(server, Kind::of::<ConfigMap>(), options)
    }
}

/// Creates or changes a ConfigMap.
pub(crate) fn put(server: &ApiServer, name: &str, value: &str) -> Value {
    let patch = json!({"data": {"v": value}});
    if let Ok(patched) = server.merge_patch(MAPS, "default", name, &patch) {
        return patched;
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"v": value},
    });
    server.create(map).unwrap()
}

pub(crate) fn delete(server: &ApiServer, name: &str) {
    server.delete(MAPS, "default", name).unwrap();
}

/// Returns the next delivery: `+name`, `~name`, `-name`, `-name?` if its final state is unknown, or
/// `synced`.
pub(crate) async fn next<K: Object>(subscription: &mut Subscription<K>) -> String {
    let hour = std::time::Duration::from_secs(3600);
    match tokio::time::timeout(hour, subscription.next()).await {
        Ok(Some(Delivery::Event(event))) => {
            let name = event.key().name();
            match &event {
                Event::Created { .. } => format!("+{name}"),
                Event::Updated { .. } => format!("~{name}"),
                Event::Deleted { .. } if event.final_state_unknown() => format!("-{name}?"),
                Event::Deleted { .. } => format!("-{name}"),
            }
        }
        Ok(Some(_)) => "synced".into(),
        Ok(None) => "end".into(),
        Err(_) => "silence".into(),
    }
}

pub(crate) async fn take<K: Object>(
    subscription: &mut Subscription<K>,
    count: usize,
) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..count {
        words.push(next(subscription).await);
    }
    words
}
