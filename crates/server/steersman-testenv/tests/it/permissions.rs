//! Permissions: the least role for the requests in the log of the server.

use http::Request;
use kube_client::Client;
use serde_json::{Value, json};
use steersman_testenv::apiserver::{ApiServer, Authorization};
use steersman_testenv::{Error, TestEnv};

/// Sends a request, and returns the status code of a refusal.
async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<(), u16> {
    let kind = match (method, path.contains("fieldManager")) {
        ("PATCH", true) => "application/apply-patch+yaml",
        ("PATCH", false) => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    let request = request.body(body.to_string().into_bytes()).unwrap();
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(kube_client::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// Returns the rules of the requests so far, without the head of the role.
fn rules(env: &TestEnv) -> String {
    let role = env.rbac_needed("any").unwrap();
    let head =
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: any\n";
    role.strip_prefix(head).unwrap().to_owned()
}

async fn admin(env: &TestEnv) -> Client {
    let admin = env.user("admin").bind_everywhere("cluster-admin");
    admin.create().await.unwrap().client().unwrap()
}

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn verbs_are_those_that_the_server_authorizes() {
    let env = TestEnv::in_process();
    let client = admin(&env).await;
    let none = Value::Null;
    assert_eq!(rules(&env), "rules: []\n", "the environment made the user");
    for (method, path, body) in [
        ("GET", "/api/v1/pods?limit=5", &none),
        ("GET", "/api/v1/nodes?watch=true&timeoutSeconds=0", &none),
        ("POST", CONFIGS, &config("a")),
        ("PUT", &format!("{CONFIGS}/a"), &config("a")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/default/deployments",
            &none,
        ),
        ("DELETE", "/apis/batch/v1/namespaces/default/jobs/a", &none),
        ("GET", "/api/v1/namespaces/default/pods/a/log", &none),
        (
            "GET",
            "/api/v1/namespaces/default/pods/a/exec?command=ls",
            &none,
        ),
        (
            "GET",
            "/api/v1/namespaces/default/services/a/proxy/deep/path",
            &none,
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/a/status",
            &json!({}),
        ),
        // Left out.
        ("GET", "/apis/apps/v1", &none),
        ("GET", "/version", &none),
        ("GET", "/healthz", &none),
    ] {
        let _ = send(&client, method, path, body).await;
    }
    assert_eq!(
        rules(&env),
        r#"rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, update]
- apiGroups: [""]
  resources: [nodes]
  verbs: [watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [services/proxy]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [deletecollection]
- apiGroups: [apps]
  resources: [deployments/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [delete]
"#
    );
}

/// A server with these permissions is the judge: with `patch` alone it refuses an apply that creates.
#[tokio::test(start_paused = true)]
async fn an_apply_that_creates_needs_create() {
    let env = TestEnv::in_process();
    let applier = env.user("applier").allow(["patch"], ["configmaps"]);
    let applier = applier.create().await.unwrap().client().unwrap();
    let path = format!("{CONFIGS}/a?fieldManager=me&force=true");
    assert_eq!(send(&applier, "PATCH", &path, &config("a")).await, Err(403));
    let refused = "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps]\n  verbs: [patch]\n";
    assert_eq!(rules(&env), refused, "a refused request counts");

    let client = admin(&env).await;
    assert_eq!(send(&client, "PATCH", &path, &config("a")).await, Ok(()));
    let created =
        "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps]\n  verbs: [create, patch]\n";
    assert_eq!(rules(&env), created);

    env.server().unwrap().requests().clear();
    assert_eq!(send(&applier, "PATCH", &path, &config("a")).await, Ok(()));
    assert_eq!(
        rules(&env),
        refused,
        "an apply that changes needs patch alone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_initial_objects_needs_list() {
    let env = TestEnv::in_process();
    let client = admin(&env).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds=1";
    let path = format!("/api/v1/pods?{query}");
    assert_eq!(send(&client, "GET", &path, &Value::Null).await, Ok(()));
    let expected = "rules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list, watch]\n";
    assert_eq!(rules(&env), expected);
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_test_and_reviews_of_its_own_permissions_are_left_out() {
    let env = TestEnv::in_process();
    let test = env.client().unwrap();
    assert_eq!(send(&test, "POST", CONFIGS, &config("a")).await, Ok(()));
    env.namespace("web").await.unwrap();

    let client = admin(&env).await;
    let authorization = "/apis/authorization.k8s.io/v1";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let of_user =
        json!({"spec": {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    for (path, body) in [
        (format!("{authorization}/selfsubjectaccessreviews"), &review),
        (
            format!("{authorization}/selfsubjectrulesreviews"),
            &json!({"spec": {"namespace": "default"}}),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(),
            &json!({}),
        ),
        (format!("{authorization}/subjectaccessreviews"), &of_user),
    ] {
        assert_eq!(send(&client, "POST", &path, body).await, Ok(()), "{path}");
    }
    let expected = "rules:\n- apiGroups: [authorization.k8s.io]\n  resources: [subjectaccessreviews]\n  \
                    verbs: [create]\n";
    assert_eq!(rules(&env), expected);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_left_out_and_an_absent_object_is_not() {
    let env = TestEnv::in_process();
    let client = admin(&env).await;
    let none = Value::Null;
    for path in [
        "/apis/example.com/v1/websites",
        "/apis/example.com/v1/namespaces/default/websites/home",
        "/api/v9/pods",
        "/api/v1/namespaces/default/secrets/absent",
    ] {
        assert_eq!(send(&client, "GET", path, &none).await, Err(404), "{path}");
    }
    let expected = "rules:\n- apiGroups: [\"\"]\n  resources: [secrets]\n  verbs: [get]\n";
    assert_eq!(rules(&env), expected);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_served_counts_after_its_definition_is_gone() {
    let env = TestEnv::in_process();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "websites", "kind": "Website"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    env.install_crds(&[definition]).await.unwrap();
    let client = admin(&env).await;
    let path = "/apis/example.com/v1/websites";
    assert_eq!(send(&client, "GET", path, &Value::Null).await, Ok(()));
    let server = env.server().unwrap();
    let crds = "customresourcedefinitions.apiextensions.k8s.io";
    server.delete(crds, "", "websites.example.com").unwrap();
    assert_eq!(send(&client, "GET", path, &Value::Null).await, Err(404));
    let expected = "rules:\n- apiGroups: [example.com]\n  resources: [websites]\n  verbs: [list]\n";
    assert_eq!(rules(&env), expected);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_dropped_requests_gives_an_error() {
    let server = ApiServer::builder().authorization(Authorization::Rbac);
    let env = TestEnv::of(server.log_capacity(1).build());
    let client = admin(&env).await;
    let _ = send(&client, "GET", "/api/v1/pods", &Value::Null).await;
    let error = env.rbac_needed("any").unwrap_err();
    assert!(
        matches!(error, Error::RequestsForgotten { forgotten } if forgotten > 0),
        "{error}"
    );
}
