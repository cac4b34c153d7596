//! The metrics server over sockets, in real time.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::Registry;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use steersman_api::{AnyCertificate, ClientConfig};
use steersman_apiserver::auth::{Authorization, User};
use steersman_apiserver::{ApiServer, Serving};
use steersman_manager::{Error, Manager, MetricsServer};
use steersman_serve::{Route, text_response};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use crate::probes::{ask, get, started_listening};
use crate::world::{Tell, add, config_map, manager_of, soon, start};

/// Sends a GET over HTTPS with a bearer token.
async fn scrape(manager: &Manager, path: &str, token: Option<&str>) -> (u16, String) {
    let config = AnyCertificate::client_config().unwrap();
    let stream = TcpStream::connect(manager.metrics_address().unwrap()).await;
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, stream.unwrap()).await.unwrap();
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    ask(stream, path, &header.unwrap_or_default()).await
}

/// Grants rules to a user.
pub(crate) fn grant(server: &ApiServer, user: &str, rules: &Value) {
    let group = "rbac.authorization.k8s.io";
    let (role, binding) = (
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
            "metadata": { "name": user }, "rules": rules,
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": user },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": user },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
        }),
    );
    server.create(role).unwrap();
    server.create(binding).unwrap();
}

/// Serves an api-server with RBAC over HTTPS, on which `operator` has the rules that the guide lists.
pub(crate) async fn secured() -> (ApiServer, Serving, ClientConfig) {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    grant(
        &server,
        "operator",
        &json!([
            { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
            { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
        ]),
    );
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, serving.kubeconfig_for(User::new("operator"))).unwrap();
    let client_config = ClientConfig::from_kubeconfig(&file).await.unwrap();
    (server, serving, client_config)
}

/// SERVE-5
#[tokio::test]
async fn a_scrape_needs_a_good_token_and_the_permission() {
    let (server, serving, client_config) = secured().await;
    grant(
        &server,
        "prometheus",
        &json!([{ "nonResourceURLs": ["/metrics", "/debug/steersman/*"], "verbs": ["get"] }]),
    );
    let good = server.add_user(User::new("prometheus"));
    let other = server.add_user(User::new("ann"));
    let options = MetricsServer::secure("127.0.0.1:0").route(Route::get("/extra", |_| async {
        text_response(StatusCode::OK, "extra")
    }));
    let manager = Manager::builder(client_config)
        .metrics(options)
        .build()
        .unwrap();
    let started = started_listening(&manager).await;
    let (status, text) = scrape(&manager, "/metrics", Some(&good)).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("process_cpu_seconds_total"), "{text}");
    let table = [
        ("/metrics", None, 401),
        ("/metrics", Some("wrong"), 401),
        ("/metrics", Some(&*other), 403),
        ("/debug/steersman/tasks", Some(&*good), 200),
        ("/debug/steersman/other", Some(&*good), 404),
        ("/debug/steersman", Some(&*good), 403),
        ("/debug/steersman/tasks", None, 401),
        ("/extra", Some(&*good), 403),
        ("/extra", None, 401),
    ];
    for (path, token, expected) in table {
        let (status, text) = scrape(&manager, path, token).await;
        assert_eq!(status, expected, "{path}: {text}");
    }
    started.stop().await.unwrap();
    serving.stop().await;
}

/// SERVE-5
#[tokio::test]
async fn an_operator_without_the_rules_of_the_reviews_answers_500() {
    let (server, serving, _) = secured().await;
    let good = server.add_user(User::new("prometheus"));
    let client_config =
        ClientConfig::in_process(server.service_as(User::new("stranger")), "default");
    let options = MetricsServer::secure("127.0.0.1:0");
    let manager = Manager::builder(client_config)
        .metrics(options)
        .build()
        .unwrap();
    let started = started_listening(&manager).await;
    assert_eq!(scrape(&manager, "/metrics", Some(&good)).await.0, 500);
    started.stop().await.unwrap();
    serving.stop().await;
}

/// The metrics that the dashboards of kubebuilder's Grafana plugin query, with their labels, and those of the guide.
const QUERIED: [(&str, &[&str]); 21] = [
    ("controller_runtime_active_workers", &["controller"]),
    (
        "controller_runtime_max_concurrent_reconciles",
        &["controller"],
    ),
    (
        "controller_runtime_reconcile_total",
        &["controller", "result"],
    ),
    ("controller_runtime_reconcile_errors_total", &["controller"]),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        &["controller"],
    ),
    ("controller_runtime_reconcile_panics_total", &["controller"]),
    (
        "controller_runtime_reconcile_time_seconds_bucket",
        &["controller", "le"],
    ),
    ("workqueue_depth", &["controller", "name"]),
    ("workqueue_adds_total", &["controller", "name"]),
    (
        "workqueue_queue_duration_seconds_bucket",
        &["controller", "name", "le"],
    ),
    (
        "workqueue_work_duration_seconds_bucket",
        &["controller", "name", "le"],
    ),
    ("workqueue_unfinished_work_seconds", &["controller", "name"]),
    (
        "workqueue_longest_running_processor_seconds",
        &["controller", "name"],
    ),
    ("workqueue_retries_total", &["controller", "name"]),
    ("rest_client_requests_total", &["code", "method", "host"]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_virtual_memory_bytes", &[]),
    ("process_open_fds", &[]),
    ("process_max_fds", &[]),
    ("process_start_time_seconds", &[]),
];

#[tokio::test]
async fn the_metrics_of_dashboards_have_their_names_and_labels() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).metrics("127.0.0.1:0").build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told));
    let started = start(&manager);
    soon(reconciled.recv()).await.unwrap();
    let address = manager.metrics_address().unwrap();
    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    for (name, labels) in QUERIED {
        let is_series = |line: &&str| {
            line.split(['{', ' ']).next() == Some(name)
                && labels
                    .iter()
                    .all(|label| line.contains(&format!("{label}=\"")))
        };
        assert!(
            text.lines().any(|line| is_series(&line)),
            "{name} {labels:?}\n{text}"
        );
    }
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_start_time_seconds") > 1.7e9);
    // Diagnostics are served only behind authentication.
    assert_eq!(get(address, "/debug/steersman").await.0, 404);
    started.stop().await.unwrap();
}

/// CACHE-13
#[test]
fn a_refused_server_leaves_nothing_in_the_registry() {
    let server = ApiServer::new();
    let registry = Registry::new();
    let answers = |_| async { text_response(StatusCode::OK, "") };
    for path in ["/metrics", "/debug/steersman", "no-slash"] {
        let options = MetricsServer::secure(":0").route(Route::get(path, answers));
        let refused = manager_of(&server)
            .metrics_registry(registry.clone())
            .metrics(options)
            .build();
        assert!(matches!(refused, Err(Error::Server(_))), "{path}");
    }
    let options = MetricsServer::secure(":0");
    let corrected = manager_of(&server)
        .metrics_registry(registry)
        .metrics(options);
    let _manager = corrected.build().unwrap();
}
