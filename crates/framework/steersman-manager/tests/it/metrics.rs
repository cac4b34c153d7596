//! A manager counts the requests of its own connection, in its own registry.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::{ClientConfig, ConnectionMetrics};
use steersman_apiserver::ApiServer;
use steersman_cache::{ByObject, CacheOptions};
use steersman_manager::{Manager, Shutdown};
use steersman_object::ObjectKey;
use tokio::sync::oneshot;

/// Returns the sum of a counter over all labels.
fn total(manager: &Manager, name: &str) -> f64 {
    let families = manager.metrics_registry().gather();
    let metrics = families
        .iter()
        .filter(|family| family.name() == name)
        .flat_map(|family| family.get_metric());
    metrics.map(|m| m.get_counter().get_value()).sum()
}

/// Runs a manager until it has cached a kind, created an object and read the object live.
async fn work(manager: &Manager, name: &str) {
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = Shutdown::when(async {
        let _ = stopped.await;
    });
    let working = async {
        let client = manager.client();
        let key = ObjectKey::namespaced("default", name);
        assert!(client.get_opt::<ConfigMap>(&key).await.unwrap().is_none());
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some(name.to_owned());
        client.create(&map).await.unwrap();
        client.live().get::<ConfigMap>(&key).await.unwrap();
        stop.send(()).unwrap();
    };
    let (ran, ()) = tokio::join!(manager.start(shutdown), working);
    ran.unwrap();
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn conn_6_two_managers_of_one_connection_count_their_own_requests() {
    let server = ApiServer::builder().seed(1).build();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let build = || {
        let options = CacheOptions::new().by_object::<ConfigMap>(ByObject::new());
        Manager::builder(client_config.clone())
            .cache(options)
            .build()
    };
    let (first, second) = (build().unwrap(), build().unwrap());
    let mut seen = server.requests().all().len();
    for (manager, name) in [(&first, "one"), (&second, "two")] {
        work(manager, name).await;
        let sent = server.requests().all().len() - seen;
        seen += sent;
        assert!(sent >= 3, "a streaming list, a create and a get: {sent}");
        assert_eq!(total(manager, "rest_client_requests_total"), sent as f64);
    }
}

#[test]
fn a_connection_keeps_the_metrics_that_it_has() {
    let server = ApiServer::new();
    let registry = prometheus::Registry::new();
    let metrics = ConnectionMetrics::register(&registry).unwrap();
    let client_config = ClientConfig::in_process(server.service(), "default").metrics(metrics);
    // In the same registry the manager would register the names a second time.
    let manager = Manager::builder(client_config).metrics_registry(registry);
    assert!(manager.build().is_ok());
}

#[test]
fn the_build_is_described_by_a_gauge() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config).build().unwrap();
    let families = manager.metrics_registry().gather();
    let info = families
        .iter()
        .find(|family| family.name() == "steersman_build_info")
        .unwrap();
    let [metric] = info.get_metric() else {
        panic!("one build: {info:?}");
    };
    assert_eq!(metric.get_gauge().get_value(), 1.0);
    let labels = metric.get_label().iter().map(|l| (l.name(), l.value()));
    let labels: Vec<(&str, &str)> = labels.collect();
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        labels,
        [("platform", platform.as_str()), ("version", version)]
    );
}
