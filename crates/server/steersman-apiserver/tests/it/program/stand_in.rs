//! Tests of the program as the kube-apiserver binary of a test environment, and as an existing
//! cluster. The lifecycle of an environment is the same on each.

use std::path::Path;
use std::process::{Command, Output};

use http::Request;
use kube_client::Client;
use serde_json::{Value, json};
use steersman_testenv::TestEnv;

use super::binary;
use super::envtest::Programs;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, kube_client::Error> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes());
    client.request(request.unwrap()).await
}

async fn get(client: &Client, path: &str) -> Result<Value, kube_client::Error> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await
}

fn code(error: &kube_client::Error) -> u16 {
    match error {
        kube_client::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// By default it uses the embedded server; the tests below run it with variables that choose
/// another.
#[tokio::test]
async fn the_lifecycle_of_a_test_environment() {
    let builder = TestEnv::builder().crd(definition());
    let env = builder.start().await.unwrap();
    let set = |name| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let other = set("KUBEBUILDER_ASSETS") || set("USE_EXISTING_CLUSTER");
    assert_eq!(env.server().is_none(), other);

    let (home, abroad) = (
        env.namespace("home").await.unwrap(),
        env.namespace("abroad").await.unwrap(),
    );
    let ann = env
        .user("ann")
        .allow_in(&home, ["create", "get"], ["boats.example.com"])
        .create()
        .await
        .unwrap();
    let ann = ann.client().unwrap();
    let boats = |namespace: &str| format!("/apis/example.com/v1/namespaces/{namespace}/boats");
    let boat =
        json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "dinghy"}});
    post(&ann, &boats(&home), &boat).await.unwrap();
    let refused = post(&ann, &boats(&abroad), &boat).await.unwrap_err();
    assert_eq!(code(&refused), 403, "{refused}");

    let admin = env.client().unwrap();
    let all = get(&admin, "/apis/example.com/v1/boats").await.unwrap();
    let in_home = |boat: &&Value| boat["metadata"]["namespace"] == *home;
    assert_eq!(
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(in_home)
            .count(),
        1
    );
    let path = format!("/api/v1/namespaces/{home}");
    env.stop().await.unwrap();
    match get(&admin, &path).await {
        // On a cluster that stays, the objects of the test are removed.
        Err(error) if set("USE_EXISTING_CLUSTER") => assert_eq!(code(&error), 404, "{error}"),
        Err(error) => assert_eq!(code(&error), 0, "no server answers: {error}"),
        // A cluster removes a namespace after its deletion is answered.
        Ok(namespace) => {
            assert!(set("USE_EXISTING_CLUSTER"), "{namespace}");
            assert_eq!(namespace["status"]["phase"], "Terminating", "{namespace}");
        }
    }
}

/// Runs the lifecycle in a process of its own with these variables.
async fn life(variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "program::stand_in::the_lifecycle_of_a_test_environment",
        ])
        .env_remove("KUBEBUILDER_ASSETS")
        .env_remove("USE_EXISTING_CLUSTER")
        .envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn assert_passed(output: &Output) {
    let [printed, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}\n{complained}"
    );
}

#[tokio::test]
async fn the_program_stands_in_for_a_kube_apiserver_binary() {
    let programs = Programs::new();
    assert_passed(&life(&[("KUBEBUILDER_ASSETS", programs.folder())]).await);
}

#[tokio::test]
async fn the_program_stands_in_for_an_existing_cluster() {
    let running = binary::start(&["--rbac"]).await;
    let variables = [
        ("USE_EXISTING_CLUSTER", Path::new("true")),
        ("KUBECONFIG", running.kubeconfig.as_path()),
    ];
    assert_passed(&life(&variables).await);
}
