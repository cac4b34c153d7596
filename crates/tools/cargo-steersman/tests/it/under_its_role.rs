//! Runs the built operator on an API server that enforces the generated role.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_api::{Api, ClientConfig, Mapper, Patch, WriteOptions};
use steersman_object::{Gvk, ObjectKey};
use steersman_testenv::apiserver::auth::User;
use steersman_testenv::apiserver::{ApiServer, Serving, manifests};
use steersman_testenv::eventually;
use tokio::process::{Child, Command};

use crate::examined::Examined;

const NAMESPACE: &str = "greeter-system";
const ACCOUNT: &str = "system:serviceaccount:greeter-system:greeter";

/// Parts of log lines that report a lost event or a refused write. The number of a port may begin with 403.
const LOST: [&str; 5] = ["is lost", "was dropped", "forbidden", " 403", "=403"];

/// Runs the operator under its generated roles in the cluster to which it was deployed, and then runs `doctor` with
/// each rule removed in turn.
pub(crate) async fn works_under_its_role(folder: &Path, program: &Path) {
    let cluster = Examined::of(folder, program).await;
    let server = &cluster.server;
    let external = folder.join("config/external");
    if external.exists() {
        for definition in manifests::read(external).unwrap() {
            server.install_crd(definition.object).unwrap();
        }
    }
    let has_webhooks = server.get("services", NAMESPACE, "greeter").is_some();
    let webhooks = has_webhooks.then(free_address);
    let kubeconfig = folder.join("operator.kubeconfig");
    write_kubeconfig(server, &cluster.serving, &kubeconfig);
    if let Some(address) = webhooks {
        server.route_service(NAMESPACE, "greeter", 443, &format!("https://{address}"));
    }
    let operator = start(program, &kubeconfig, webhooks);
    let log = || std::fs::read_to_string(kubeconfig.with_extension("log")).unwrap();
    for sample in manifests::read(folder.join("config/samples")).unwrap() {
        eventually("the server accepts the sample", || async {
            let applied = Box::pin(apply(server, &sample.object)).await;
            applied.map_err(|problem| format!("{sample}: {problem}\n{}", log()))
        })
        .await
        .unwrap();
    }
    eventually("the sample is ready under the role", || async {
        let sample = server.get("greetings.example.com", "default", "greeting-sample");
        let sample = sample.unwrap();
        match sample["status"]["conditions"][0]["status"] == "True" {
            true => Ok(()),
            false => Err(log()),
        }
    })
    .await
    .unwrap();
    // MANIFEST-3: the implied rules suffice, and `doctor` names each rule that is missing.
    eventually("the doctor finds nothing", || async {
        let (report, is_healthy) = cluster.doctor(None);
        match is_healthy && report.contains("\n0 problems, 0 unknown, ") {
            true => Ok(()),
            false => Err(report),
        }
    })
    .await
    .unwrap();
    let refused = server
        .requests()
        .matching(|request| request.user == ACCOUNT && request.status == Some(403));
    assert!(refused.is_empty(), "{refused:?}");
    let log_text = log();
    let said = log_text.lines().filter_map(|line| line.split_once(' '));
    let lost = said
        .map(|(_, said)| said)
        .filter(|said| LOST.iter().any(|part| said.contains(part)));
    assert_eq!(lost.collect::<Vec<_>>(), [""; 0], "{log_text}");
    // The operator keeps running, because `doctor` reads objects that its webhook converts.
    assert!(cluster.names_each_lacking_rule() > 10);
    drop(operator);
    the_preflight_names_a_lacking_rule(&cluster, &kubeconfig, webhooks).await;
    cluster.serving.stop().await;
}

/// Starts the operator under a role without the rule for ConfigMaps.
async fn the_preflight_names_a_lacking_rule(
    cluster: &Examined,
    kubeconfig: &Path,
    webhooks: Option<SocketAddr>,
) {
    let server = &cluster.server;
    let mut role = server
        .get("clusterroles.rbac.authorization.k8s.io", "", "greeter")
        .unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    let before = rules.len();
    rules.retain(|rule| !rule["resources"].to_string().contains("configmaps"));
    assert_eq!(rules.len(), before - 1, "{role}");
    server
        .update("clusterroles.rbac.authorization.k8s.io", role)
        .unwrap();
    let operator = start(&cluster.program, kubeconfig, webhooks);
    eventually("the preflight names the rule", || async {
        let log = std::fs::read_to_string(kubeconfig.with_extension("log")).unwrap();
        match log.contains("get, list, watch configmaps") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await
    .unwrap();
    drop(operator);
}

/// Writes a kubeconfig for the operator's service account, with the operator's namespace.
fn write_kubeconfig(server: &ApiServer, serving: &Serving, path: &Path) {
    let token = server.add_user(User::new(ACCOUNT));
    let mut config: Value = serde_saphyr::from_str(&serving.kubeconfig()).unwrap();
    config["users"][0]["user"] = json!({ "token": token });
    config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
    std::fs::write(path, config.to_string()).unwrap();
}

/// Applies an object by an API request, so that the server calls the webhooks.
async fn apply(server: &ApiServer, object: &Value) -> Result<(), steersman_api::Error> {
    let client_config = ClientConfig::in_process(server.service(), "default");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let gvk = Gvk::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]));
    let kind = Mapper::new(client_config.clone()).kind(&gvk).await?;
    let name = text(&object["metadata"]["name"]);
    let key = match kind.is_namespaced() {
        true => ObjectKey::namespaced("default", &name),
        false => ObjectKey::cluster_scoped(&name),
    };
    let api = Api::<DynamicObject>::new(client_config.client()?, kind);
    let options = WriteOptions::new().field_manager("test");
    api.patch(&key, &Patch::Apply(object.clone()), &options)
        .await?;
    Ok(())
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Starts the operator as its Deployment does, with probes, metrics and webhooks on free ports, and its log in
/// `kubeconfig.log`. Dropping the child kills the process.
fn start(program: &Path, kubeconfig: &Path, webhooks: Option<SocketAddr>) -> Child {
    let log = File::create(kubeconfig.with_extension("log")).unwrap();
    let mut command = Command::new(program);
    command.env("KUBECONFIG", kubeconfig).args([
        "--install", "--leader-elect", "--leader-election-namespace", NAMESPACE, "--preflight",
    ]);
    for server in ["health-probe", "metrics"] {
        command.arg(format!("--{server}-bind-address={}", free_address()));
    }
    if let Some(address) = webhooks {
        command.arg(format!("--webhook-bind-address={address}"));
    }
    command
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stderr(Stdio::from(log));
    command.spawn().unwrap()
}
