//! Tests `top` through the proxy of an API server. The embedded server has no proxy: a server in front of it passes
//! requests below the path of the Pod on to the operator, without the header `Authorization`, as kube-apiserver does.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::kube_client::{Client, Config};
use steersman_serve::{Limits, Route, Routes, Server, ServerOptions, json_response, text_response};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::cargo::{example_program, steersman};

const POD: &str = "/api/v1/namespaces/greeter-system/pods/https:greeter-0:8443/proxy";

/// An API server with a proxy to one Pod.
#[derive(Clone)]
struct FrontServer {
    server: Client,
    operator: Client,
    /// The paths of the requests to the Pod.
    passed: Arc<Mutex<Vec<String>>>,
}

impl FrontServer {
    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path_and_query().unwrap().to_string();
        let (client, path) = match path.strip_prefix(POD) {
            Some(path) => {
                self.passed.lock().push(path.to_owned());
                (&self.operator, path.to_owned())
            }
            None => (&self.server, path),
        };
        let (mut head, body) = request.into_parts();
        head.uri = path.parse().unwrap();
        // Answers in protobuf are no texts.
        for name in [AUTHORIZATION, HOST, ACCEPT] {
            head.headers.remove(name);
        }
        let request = Request::from_parts(head, body.to_vec());
        match client.request_text(request).await {
            Ok(text) => json_response(StatusCode::OK, text),
            Err(error) => text_response(StatusCode::BAD_GATEWAY, error.to_string()),
        }
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn with_pod() -> ApiServer {
    let server = ApiServer::new();
    let named = |kind: &str, name: &str, namespace: Option<&str>| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    server
        .create(named("Namespace", "greeter-system", None))
        .unwrap();
    server
        .create(named("ServiceAccount", "greeter", Some("greeter-system")))
        .unwrap();
    let mut pod = named("Pod", "greeter-0", Some("greeter-system"));
    pod["metadata"]["labels"] = json!({"app.kubernetes.io/name": "greeter"});
    pod["spec"] = json!({"containers": [{"name": "manager", "image": "greeter"}]});
    let mut pod = server.create(pod).unwrap();
    pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    server.update("pods/status", pod).unwrap();
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_comes_through_the_proxy_of_the_api_server_with_a_token_of_the_operator() {
    let here = tempfile::tempdir().unwrap();
    let server = with_pod();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = here.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let page = free_address();
    let operator = Command::new(example_program())
        .env("KUBECONFIG", &kubeconfig)
        .args(["--install", "--debug-page", "--health-probe-bind-address=0"])
        .arg(format!("--metrics-bind-address={page}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let mut config = Config::new(format!("https://{page}").parse().unwrap());
    config.accept_invalid_certs = true;
    let connection = steersman_api::ClientConfig::from_kubeconfig(&kubeconfig)
        .await
        .unwrap();
    let front = FrontServer {
        server: connection.client().unwrap(),
        operator: Client::try_from(config).unwrap(),
        passed: Arc::default(),
    };
    let mut routes = Routes::new();
    let answering = front.clone();
    let all = Route::any("/", 1 << 20, move |request| {
        let front = answering.clone();
        async move { front.answer(request).await }
    });
    routes.add(all.prefix()).unwrap();
    let options = ServerOptions::new().limits(Limits::new());
    let listening = Server::bind("front", &"127.0.0.1:0".into(), options)
        .await
        .unwrap();
    let front_config = here.path().join("front");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "front",
        "clusters": [{"name": "front", "cluster": {"server": format!("http://{}", listening.local_address())}}],
        "users": [{"name": "front", "user": {}}],
        "contexts": [{"name": "front", "context": {"cluster": "front", "user": "front"}}],
    });
    std::fs::write(&front_config, text.to_string()).unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(listening.run(routes, stop.clone()));

    let shown = eventually("the operator shows its overview", async || {
        let mut top = steersman(here.path());
        top.args(["top", "--once", "--name", "greeter"]);
        top.env("KUBECONFIG", &front_config);
        let ran = tokio::task::spawn_blocking(move || top.output().unwrap())
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ran.status.success() {
            true => Ok(text(&ran.stdout)),
            false => Err(text(&ran.stderr)),
        }
    })
    .await
    .unwrap();
    for part in ["works, started", "CONTROLLER", "\ngreeting "] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let passed = front.passed.lock().clone();
    assert_eq!(passed.last().unwrap(), "/debug/api/overview?limit=40");
    drop(operator);
    stop.cancel();
    serving.stop().await;
}
