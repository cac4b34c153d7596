//! The metrics of requests: which requests count, with which labels, and that each counts once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use prometheus::Registry;
use serde_json::json;
use steersman_api::wire::Wire;
use steersman_api::{
    Api, ApiListWatch, ClientConfig, ConnectionMetrics, DeleteOptions, ListWatch as _, Paging,
    WatchOptions, WriteOptions,
};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Effect, FaultSpec, Verb};
use steersman_object::{Kind, ListOptions, ObjectKey, ResourceVersion};
use steersman_protobuf::encode_object;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, ServiceExt as _};

const DURATION: &str = "rest_client_request_duration_seconds";
const SENT: &str = "rest_client_request_size_bytes";
const RECEIVED: &str = "rest_client_response_size_bytes";

/// The samples of a histogram.
#[derive(Debug, PartialEq)]
struct Samples {
    count: u64,
    sum: f64,
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".into());
    map.metadata.name = Some(name.into());
    map
}

fn metered(client_config: ClientConfig) -> (Registry, ClientConfig) {
    let registry = Registry::new();
    let metrics = ConnectionMetrics::register(&registry).unwrap();
    (registry, client_config.metrics(metrics))
}

fn world() -> (ApiServer, Registry, Api<ConfigMap>) {
    let server = ApiServer::builder().seed(1).build();
    let (registry, client_config) = metered(ClientConfig::in_process(server.service(), "default"));
    let api = Api::typed(client_config.client().unwrap());
    (server, registry, api)
}

/// Returns the counted requests, as `code method host count`.
fn counted(registry: &Registry) -> Vec<String> {
    let families = registry.gather();
    let requests = families
        .iter()
        .filter(|family| family.name() == "rest_client_requests_total")
        .flat_map(|family| family.get_metric());
    let mut lines: Vec<String> = requests
        .map(|metric| {
            let labels: BTreeMap<_, _> = metric
                .get_label()
                .iter()
                .map(|label| (label.name(), label.value()))
                .collect();
            let (code, method, host) = (labels["code"], labels["method"], labels["host"]);
            let count = metric.get_counter().get_value();
            format!("{code} {method} {host} {count}")
        })
        .collect();
    lines.sort();
    lines
}

fn samples(registry: &Registry, name: &str, verb: &str) -> Samples {
    let families = registry.gather();
    let metrics = families
        .iter()
        .filter(|family| family.name() == name)
        .flat_map(|family| family.get_metric());
    let of_verb = metrics.filter(|metric| {
        let labels = metric.get_label();
        labels.iter().any(|label| label.value() == verb)
    });
    let none = Samples { count: 0, sum: 0.0 };
    of_verb.fold(none, |all, metric| Samples {
        count: all.count + metric.get_histogram().get_sample_count(),
        sum: all.sum + metric.get_histogram().get_sample_sum(),
    })
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn conn_6_each_answer_counts_by_its_code() {
    let (server, registry, api) = world();
    let options = WriteOptions::new();
    assert!(api.get_opt(&key("a")).await.unwrap().is_none());
    let created = api.create(&map("a"), &options).await.unwrap();
    assert!(api.create(&map("a"), &options).await.is_err());
    api.get(&key("a")).await.unwrap();
    let mut changed = created;
    changed.data = Some(BTreeMap::from([("k".into(), "v".into())]));
    api.update(&changed, &options).await.unwrap();
    let busy = Answer::code(429).retry_after(3).times(1);
    let _fault = server.faults().answer(Verb::Get, "configmaps", busy);
    assert_eq!(api.get(&key("a")).await.unwrap_err().code(), Some(429));
    api.delete(&key("a"), &DeleteOptions::new()).await.unwrap();
    let all = [
        "200 DELETE in-process 1", "200 GET in-process 1", "200 PUT in-process 1",
        "201 POST in-process 1", "404 GET in-process 1", "409 POST in-process 1",
        "429 GET in-process 1",
    ];
    assert_eq!(counted(&registry), all);
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn conn_6_a_request_without_an_answer_counts_as_an_error() {
    let (server, registry, api) = world();
    let cut = FaultSpec::new(Effect::Cut { commit: false }).times(1);
    let _cut = server.faults().add(cut).unwrap();
    assert!(api.get(&key("a")).await.unwrap_err().is_transport());
    assert_eq!(counted(&registry), ["<error> GET in-process 1"]);

    // The caller is dropped before the answer arrives.
    let _swallowed = server.faults().swallow_everything();
    let asked = key("a");
    let answer = timeout(Duration::from_secs(7), api.get(&asked)).await;
    assert!(answer.is_err());
    assert_eq!(counted(&registry), ["<error> GET in-process 2"]);
    let durations = samples(&registry, DURATION, "GET");
    assert_eq!(durations, Samples { count: 2, sum: 7.0 });
    assert_eq!(samples(&registry, RECEIVED, "GET").count, 0);
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn conn_6_a_request_that_a_layer_refuses_counts_as_an_error() {
    let server = ApiServer::builder().seed(1).build();
    let refusing = layer_fn(|wire: Wire| {
        let refused = wire.filter(|request: Request<Body>| -> Result<_, BoxError> {
            assert!(!request.uri().path().ends_with("/panic"));
            Err("refused".into())
        });
        refused.boxed()
    });
    // A layer that is added later is inside of the metrics, too.
    let (registry, client_config) = metered(ClientConfig::in_process(server.service(), "default"));
    let api: Api<ConfigMap> = Api::typed(client_config.layer(refusing).client().unwrap());
    for name in ["a", "panic"] {
        assert!(api.get(&key(name)).await.unwrap_err().is_transport());
    }
    assert_eq!(counted(&registry), ["<error> GET in-process 2"]);
    assert!(server.requests().all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_duration_ends_with_the_body_and_sizes_are_those_of_the_bodies() {
    let (server, registry, api) = world();
    let before = server.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        "data": {"text": "x".repeat(990)},
    }));
    before.unwrap();
    let all = ListOptions::new().namespace("default");
    let chunks = Effect::Chunks {
        bytes: 1000,
        millis: 500,
    };
    let delay = Duration::from_secs(2);
    let _delay = server.faults().delay(Verb::List, "configmaps", delay);
    let _chunks = server.faults().add(FaultSpec::new(chunks)).unwrap();
    api.list(&all, &Paging::new()).await.unwrap();
    let (durations, sizes) = (
        samples(&registry, DURATION, "GET"),
        samples(&registry, RECEIVED, "GET"),
    );
    assert_eq!((durations.count, sizes.count), (1, 1));
    assert!(sizes.sum > 1000.0 && sizes.sum < 2000.0, "{sizes:?}");
    assert!(durations.sum > 2.0, "the body takes time: {durations:?}");
    let none = Samples { count: 1, sum: 0.0 };
    assert_eq!(samples(&registry, SENT, "GET"), none);

    let json = serde_json::to_value(map("b")).unwrap();
    let protobuf = encode_object(json.as_object().unwrap()).unwrap().unwrap();
    api.create(&map("b"), &WriteOptions::new()).await.unwrap();
    let sent = samples(&registry, SENT, "POST");
    assert_eq!(sent.count, 1);
    let sizes = [json.to_string().len(), protobuf.len()].map(|size| size as f64);
    assert!(
        sizes.contains(&sent.sum),
        "{sent:?}, and not one of {sizes:?}"
    );
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn conn_6_a_watch_counts_once_when_it_is_answered() {
    let server = ApiServer::builder().seed(1).build();
    let (registry, client_config) = metered(ClientConfig::in_process(server.service(), "default"));
    let client = client_config.client().unwrap();
    let list_watch = ApiListWatch::new(client, Kind::of::<ConfigMap>(), None);
    let now = ResourceVersion::new(server.revision().to_string());
    let options = WatchOptions::after(now);
    let mut watch = list_watch.watch(&options).await.unwrap();
    assert_eq!(counted(&registry), ["200 GET in-process 1"]);
    let created = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
    });
    server.create(created).unwrap();
    watch.next().await.unwrap().unwrap();
    server.faults().break_watches();
    while let Some(Ok(_)) = watch.next().await {}
    drop(watch);
    assert_eq!(counted(&registry), ["200 GET in-process 1"]);
    for name in [DURATION, SENT, RECEIVED] {
        assert_eq!(samples(&registry, name, "GET").count, 0, "{name}");
    }
    // A watch without an answer has no duration.
    let cut = FaultSpec::new(Effect::Cut { commit: false }).times(1);
    let _cut = server.faults().add(cut).unwrap();
    assert!(list_watch.watch(&options).await.is_err());
    let both = ["200 GET in-process 1", "<error> GET in-process 1"];
    assert_eq!(counted(&registry), both);
    assert_eq!(samples(&registry, DURATION, "GET").count, 0);
}

/// CONN-6
#[tokio::test]
async fn conn_6_over_https_the_host_is_that_of_the_configuration() {
    let server = ApiServer::builder().seed(1).build();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serving.kubeconfig()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let (registry, client_config) = metered(client_config);
    let host = client_config.host().to_owned();
    assert!(host.starts_with("127.0.0.1:"), "{host}");
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    api.create(&map("a"), &WriteOptions::new()).await.unwrap();
    api.get(&key("a")).await.unwrap();
    assert!(api.get_opt(&key("b")).await.unwrap().is_none());
    let cut = FaultSpec::new(Effect::Cut { commit: false }).verb(Verb::Delete);
    let _cut = server.faults().add(cut).unwrap();
    let deleted = api.delete(&key("a"), &DeleteOptions::new()).await;
    assert!(deleted.unwrap_err().is_transport());
    let all = [
        format!("200 GET {host} 1"),
        format!("201 POST {host} 1"),
        format!("404 GET {host} 1"),
        format!("<error> DELETE {host} 1"),
    ];
    assert_eq!(counted(&registry), all);
    assert_eq!(samples(&registry, DURATION, "GET").count, 2);
    assert_eq!(samples(&registry, RECEIVED, "POST").count, 1);
    assert!(samples(&registry, RECEIVED, "POST").sum > 0.0);
}

#[test]
fn connections_with_metrics_of_two_registries_count_apart() {
    let server = ApiServer::new();
    let one = ClientConfig::in_process(server.service(), "default");
    assert!(!one.has_metrics());
    let (first, one) = metered(one);
    assert!(one.has_metrics());
    let (second, two) = metered(one.clone());
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        for client_config in [&one, &two, &two] {
            let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
            assert!(api.get_opt(&key("a")).await.unwrap().is_none());
        }
    });
    assert_eq!(counted(&first), ["404 GET in-process 1"]);
    assert_eq!(counted(&second), ["404 GET in-process 2"]);
}
