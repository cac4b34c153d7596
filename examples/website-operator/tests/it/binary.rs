//! The program, started in an empty home directory like by a user.

use std::path::Path;
use std::process::Output;

use example_program::command::command;
use steersman_testenv::TestEnv;
use steersman_testenv::apiserver::faults::Answer;
use steersman_testenv::json_lines;
use tempfile::TempDir;
use tokio::process::Command;

use crate::world::simulator;

pub(crate) fn operator(home: &Path) -> Command {
    command(env!("CARGO_BIN_EXE_website-operator"), home)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn error_of(output: &Output) -> String {
    assert!(
        !output.status.success(),
        "it should have failed: {}",
        text(&output.stdout)
    );
    text(&output.stderr)
}

#[tokio::test]
async fn once_reaches_ready_on_the_embedded_server() {
    let home = TempDir::new().unwrap();
    let output = operator(home.path()).arg("--once").output().await.unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("no cluster is configured"), "{said}");
    assert!(
        said.contains("Website default/hello is Served: 2 of 2 pods are ready"),
        "{said}"
    );
    // The file would name a stopped server.
    assert!(!home.path().join("website-operator.kubeconfig").exists());
    assert_eq!(text(&output.stderr), "", "a quiet run logs nothing");
}

#[tokio::test]
async fn a_missing_kubeconfig_is_named() {
    let home = TempDir::new().unwrap();
    let output = operator(home.path())
        .env("KUBECONFIG", "nowhere.yaml")
        .output()
        .await
        .unwrap();
    let error = error_of(&output);
    assert!(error.contains("nowhere.yaml"), "{error}");
}

#[tokio::test]
async fn a_malformed_kubeconfig_is_named() {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("broken.yaml"), "clusters: {not: [a, list").unwrap();
    let output = operator(home.path())
        .env("KUBECONFIG", "broken.yaml")
        .output()
        .await
        .unwrap();
    let error = error_of(&output);
    assert!(error.contains("broken.yaml"), "{error}");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let home = TempDir::new().unwrap();
    let port = free_address().port();
    let server = format!("https://127.0.0.1:{port}");
    std::fs::write(home.path().join("config"), kubeconfig(&server)).unwrap();
    let output = operator(home.path())
        .env("KUBECONFIG", "config")
        .arg("--once")
        .output()
        .await
        .unwrap();
    let error = error_of(&output);
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[tokio::test]
async fn on_a_configured_cluster_nothing_is_installed_without_a_flag() {
    let (env, home) = configured().await;
    let error = error_of(&run(&home, &["--once"]).await);
    let named = error.contains("websites.web.example.com") && error.contains("--install");
    assert!(named, "{error}");
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    assert!(env.server().unwrap().list(definitions, "").is_empty());

    // DEF-7: both versions need the webhooks.
    let error = error_of(&run(&home, &["--once", "--install", "--sample"]).await);
    for said in [
        "--webhook-bind-address",
        "--install-newest-version-only",
        "versions v1alpha1 and v1 differ in",
        "spec.host",
        "spec.replicas",
        "spec.servers",
    ] {
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(env.server().unwrap().list(definitions, "").is_empty());

    let newest = ["--once", "--install-newest-version-only", "--sample"];
    let output = run(&home, &newest).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[tokio::test]
async fn once_prints_the_obstacle_that_a_user_must_remove_instead_of_waiting() {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    let output = run(&home, &["--install-newest-version-only", "--once"]).await;
    assert!(
        error_of(&output).contains("--sample"),
        "{}",
        text(&output.stderr)
    );
    server.create(site("empty", "nowhere")).unwrap();
    let error = error_of(&run(&home, &["--once"]).await);
    assert!(
        error.contains("default/empty") && error.contains("\"nowhere\""),
        "{error}"
    );
    assert!(!error.contains("--play"), "{error}");

    let refused = server.faults().answer(None, "services", Answer::code(403));
    let error = error_of(&run(&home, &["--once"]).await);
    assert!(
        error.contains("services") && error.contains("403"),
        "{error}"
    );
    drop(refused);
}

#[tokio::test]
async fn the_definition_in_the_manifests_equals_the_definition_in_the_code() {
    let home = TempDir::new().unwrap();
    let output = operator(home.path())
        .arg("--print-crd")
        .output()
        .await
        .unwrap();
    let committed = include_str!("../../manifests/crd.yaml");
    let hint = "write it anew: cargo run -p website-operator -- --print-crd > manifests/crd.yaml";
    assert_eq!(
        text(&output.stdout).trim_end(),
        committed.trim_end(),
        "{hint}"
    );
}

/// Returns an address that was just free, and that no program listens on.
pub(crate) fn free_address() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Starts an api-server over HTTPS that plays workloads, and a home with a KUBECONFIG that leads
/// to it.
pub(crate) async fn configured() -> (TestEnv, TempDir) {
    let env = TestEnv::https(simulator()).await.unwrap();
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("config"), env.kubeconfig().unwrap()).unwrap();
    (env, home)
}

/// Returns the exit of the binary with a configuration file, on the embedded server.
async fn with_file(text: &str) -> Output {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("settings.yaml"), text).unwrap();
    let mut command = operator(home.path());
    command.args(["--once", "--config=settings.yaml"]);
    command.output().await.unwrap()
}

#[tokio::test]
async fn a_configuration_file_sets_the_controller_by_its_name() {
    let output = with_file("controllers:\n  website:\n    max-concurrent-reconciles: 2\n").await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = with_file("log-format: json\ncontrollers:\n  wbsite:\n    backoff-base: 1s\n");
    let last = last_line(&output.await);
    let error = last["error"].as_str().unwrap();
    assert!(
        error.contains("\"wbsite\"") && error.contains("it has \"website\""),
        "{error}"
    );
    // The form of the lines is read although another setting is wrong.
    let last = last_line(&with_file("log-format: json\nreplicas: 2\n").await);
    let error = last["error"].as_str().unwrap();
    assert!(
        error.contains("settings.yaml:2: there is no setting \"replicas\""),
        "{error}"
    );
}

#[tokio::test]
async fn the_flags_of_a_deployment_elect_a_leader_and_serve_probes_and_metrics() {
    let home = TempDir::new().unwrap();
    let mut command = operator(home.path());
    command.args([
        "--once",
        "--leader-elect",
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--log-level=debug",
        "--log-format=json",
    ]);
    let output = command.output().await.unwrap();
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    let lines = json_lines(&log).unwrap();
    let listening = lines
        .iter()
        .filter(|line| line["msg"] == "the server listens");
    // LOG-3: what the program tells its user has the same form.
    let said = json_lines(&text(&output.stdout)).unwrap();
    let served = "Website default/hello is Served: 2 of 2 pods are ready";
    let texts = || said.iter().filter_map(|line| line["msg"].as_str());
    assert!(texts().any(|text| text.ends_with(served)), "{said:?}");
    // Those of probes, metrics and webhooks.
    assert_eq!(listening.count(), 3, "{log}");
    // LOG-1: with the keys of controller-runtime, and the values of the reconcile.
    let of_reconciles: Vec<_> = lines
        .iter()
        .filter(|line| line.contains_key("reconcileID"))
        .collect();
    assert!(!of_reconciles.is_empty(), "{log}");
    for line in of_reconciles {
        for (key, value) in [
            ("controller", "website"),
            ("controllerGroup", "web.example.com"),
            ("controllerKind", "Website"),
            ("namespace", "default"),
            ("name", "hello"),
        ] {
            assert_eq!(line[key], value, "{line:?}");
        }
    }
}

/// Returns the last line of the log of a program that ended with an error.
fn last_line(output: &Output) -> serde_json::Map<String, serde_json::Value> {
    let lines = json_lines(&error_of(output)).unwrap();
    lines.into_iter().last().unwrap()
}

#[tokio::test]
async fn the_error_that_ends_the_program_is_a_line_of_its_log() {
    let (_env, home) = configured().await;
    let last = last_line(&run(&home, &["--once", "--log-format=json"]).await);
    assert_eq!(last["level"], "error");
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("--install"), "{error}");
}

#[tokio::test]
async fn a_wrong_variable_is_named() {
    let home = TempDir::new().unwrap();
    let mut command = operator(home.path());
    command.env("STEERSMAN_LOG_FORMAT", "xml").arg("--once");
    let error = error_of(&command.output().await.unwrap());
    assert!(
        error.contains("STEERSMAN_LOG_FORMAT") && error.contains("human, json"),
        "{error}"
    );
}

#[tokio::test]
async fn flags_of_kubebuilder_without_effect_are_named_in_one_warning() {
    let home = TempDir::new().unwrap();
    let mut command = operator(home.path());
    command.args(["--print-crd", "--zap-time-encoding=epoch"]);
    command.arg("--zap-stacktrace-level=error");
    let output = command.output().await.unwrap();
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert_eq!(log.matches("have no effect").count(), 1, "{log}");
    let named = log.contains("--zap-time-encoding") && log.contains("--zap-stacktrace-level");
    assert!(named && log.contains("--log-format"), "{log}");
}

async fn run(home: &TempDir, arguments: &[&str]) -> Output {
    let mut command = operator(home.path());
    command.env("KUBECONFIG", "config").args(arguments);
    command.output().await.unwrap()
}

/// Returns a website of the namespace `default`.
pub(crate) fn site(name: &str, pages: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "web.example.com/v1", "kind": "Website",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"pages": pages},
    })
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    server: \
         {server}\ncontexts:\n- name: c\n  context:\n    cluster: c\n    user: u\nusers:\n- name: u\n  user: \
         {{}}\n"
    )
}
