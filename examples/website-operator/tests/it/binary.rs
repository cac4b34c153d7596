//! The binary as a user starts it, in an empty home.

use std::path::Path;
use std::process::{Output, Stdio};

use steersman_testenv::TestEnv;
use tempfile::TempDir;
use tokio::process::Command;

fn operator(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_website-operator"));
    command
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn error_of(output: &Output) -> String {
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
    assert!(home.path().join("website-operator.kubeconfig").exists());
    assert_eq!(text(&output.stderr), "", "a quiet run logs nothing");
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
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
    // A port that was free a moment ago, and that nobody listens on.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let server = format!("https://127.0.0.1:{port}");
    std::fs::write(home.path().join("config"), kubeconfig(&server)).unwrap();
    let output = operator(home.path())
        .env("KUBECONFIG", "config")
        .output()
        .await
        .unwrap();
    let error = error_of(&output);
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[tokio::test]
async fn on_a_configured_cluster_it_says_what_is_missing_and_does_nothing_unless_told() {
    let env = TestEnv::https(steersman_testenv::apiserver::ApiServer::new())
        .await
        .unwrap();
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("config"), env.kubeconfig().unwrap()).unwrap();
    let run = |arguments: &'static [&'static str]| {
        let mut command = operator(home.path());
        command.env("KUBECONFIG", "config").args(arguments);
        async move { command.output().await.unwrap() }
    };
    let error = error_of(&run(&["--once"]).await);
    assert!(
        error.contains("websites.web.example.com") && error.contains("--install"),
        "{error}"
    );
    assert!(
        env.server()
            .unwrap()
            .list("customresourcedefinitions.apiextensions.k8s.io", "")
            .is_empty()
    );

    let error = error_of(&run(&["--once", "--install"]).await);
    assert!(error.contains("--sample"), "{error}");

    let output = run(&["--once", "--sample", "--play-workloads"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    server: \
         {server}\ncontexts:\n- name: c\n  context:\n    cluster: c\n    user: u\nusers:\n- name: u\n  user: \
         {{}}\n"
    )
}
