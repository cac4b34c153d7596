//! Definitions, namespaces and clients of environments in process and over HTTPS.

use http::Request;
use kube_client::Client;
use serde_json::{Value, json};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::{Backend, TestEnv, TestEnvBuilder};

pub(crate) async fn get(client: &Client, path: &str) -> Result<Value, kube_client::Error> {
    client
        .request(Request::get(path).body(Vec::new()).unwrap())
        .await
}

pub(crate) async fn create(
    client: &Client,
    path: &str,
    body: &Value,
) -> Result<Value, kube_client::Error> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes());
    client.request(request.unwrap()).await
}

fn definition(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "kind": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

async fn definitions_and_namespaces(builder: TestEnvBuilder) {
    let folder = tempfile::TempDir::new().unwrap();
    let text = serde_json::to_string(&definition("tests")).unwrap();
    std::fs::write(folder.path().join("crd.yaml"), text).unwrap();
    let env = builder
        .crd(definition("others"))
        .crds_from(folder.path())
        .start()
        .await
        .unwrap();
    // A second installation is no conflict.
    env.install_crds_from(folder.path()).await.unwrap();

    let (one, two) = (
        env.namespace("web").await.unwrap(),
        env.namespace("web").await.unwrap(),
    );
    assert!(one.starts_with("web-") && *one != *two, "{one} {two}");
    let client = env.client().unwrap();
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "tests", "metadata": {"name": "a"}});
    create(
        &client,
        &format!("/apis/example.com/v1/namespaces/{one}/tests"),
        &object,
    )
    .await
    .unwrap();
    let all = get(&client, "/apis/example.com/v1/tests").await.unwrap();
    assert_eq!(all["items"][0]["metadata"]["namespace"], *one);
    env.delete_namespace(one).await.unwrap();
    assert_eq!(env.config().is_some(), env.kubeconfig().is_some());
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn in_process_definitions_are_served_and_namespaces_differ() {
    definitions_and_namespaces(TestEnv::builder().in_process()).await;
}

#[tokio::test]
async fn over_https_definitions_are_served_and_namespaces_differ() {
    let builder = TestEnv::builder().backend(Backend::Embedded);
    definitions_and_namespaces(builder.server(ApiServer::new())).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_refused_definition_names_it() {
    let mut wrong = definition("tests");
    wrong["spec"]["scope"] = "Everywhere".into();
    let start = TestEnv::builder().in_process().crd(wrong).start().await;
    let error = start.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the installation of the definition tests.example.com failed"
    );
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("Everywhere"), "{cause}");
}

#[tokio::test]
async fn a_folder_without_definitions_starts_no_server() {
    let folder = tempfile::TempDir::new().unwrap();
    let start = TestEnv::builder().crds_from(folder.path()).start().await;
    let text = start.unwrap_err().to_string();
    assert!(
        text.starts_with("there is no CustomResourceDefinition"),
        "{text}"
    );
}
