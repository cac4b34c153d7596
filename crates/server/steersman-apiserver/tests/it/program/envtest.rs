//! Tests of the programs called `etcd` and `kube-apiserver`, with the conversations of test
//! environments: envtest of controller-runtime, and kube-api-test of fabric8.

mod control_plane;
mod flags;
mod java;
mod kubectl;
mod programs;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures::future::join_all;
use http::Request;
use kube_client::Client;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, WEBSITES, config_map, website, website_crd};
use crate::webhooks::tls;
pub(super) use control_plane::ControlPlane;
pub(super) use programs::Programs;

/// Longer than any step here takes; a wait that reaches it has failed.
pub(super) const TOO_LONG: Duration = Duration::from_secs(60);

type Answer = Result<Value, kube_client::Error>;

async fn get(client: &Client, path: &str) -> Answer {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await
}

async fn post(client: &Client, path: &str, body: &Value) -> Answer {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes());
    client.request(request.unwrap()).await
}

/// Returns the message of an answer that must be a refusal with this code.
fn refusal(answer: Answer, code: u16) -> String {
    match answer {
        Err(kube_client::Error::Api(status)) if status.code == code => status.message,
        other => panic!("{code} was expected: {other:?}"),
    }
}

/// Asks once a tenth of a second, as the environments do, until an answer meets a condition.
async fn until(client: &Client, path: &str, condition: impl Fn(&Answer) -> bool) {
    let looking = async {
        while !condition(&get(client, path).await) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, looking).await.unwrap();
}

#[tokio::test]
async fn envtest_starts_an_environment_and_a_suite_uses_it() {
    let programs = Programs::new();
    let plane = ControlPlane::start(&programs, &[]).await;
    let admin = plane.user("default", &["system:masters"]);
    until(&admin, "/api/v1/namespaces/default", Result::is_ok).await;

    // RBAC: certificates name users, and only permissions of roles count.
    let anonymous = plane.anonymous();
    let message = refusal(get(&anonymous, CONFIG_MAPS).await, 403);
    assert!(message.contains("User \"system:anonymous\""), "{message}");
    let ann = plane.user("ann", &["team"]);
    let message = refusal(get(&ann, CONFIG_MAPS).await, 403);
    assert!(message.contains("User \"ann\""), "{message}");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({
        "metadata": {"name": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}],
    });
    post(&admin, roles, &binding).await.unwrap();
    get(&ann, CONFIG_MAPS).await.unwrap();

    // A definition is discovered, and its objects are served.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&admin, definitions, &website_crd()).await.unwrap();
    until(&admin, "/apis/example.com/v1", |answer| {
        let resources = answer.as_ref().map(|list| list["resources"].clone());
        resources.is_ok_and(|list| list[0]["name"] == "websites")
    })
    .await;
    post(&admin, WEBSITES, &website("shop")).await.unwrap();

    // The bundle of a webhook is the serving certificate itself.
    let refuser = tls::refuser().await;
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hook = json!({
        "metadata": {"name": "judge"},
        "webhooks": [{
            "name": "judge.example.com",
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/judge", refuser.port),
                "caBundle": STANDARD.encode(&refuser.own),
            },
            "rules": [{"operations": ["CREATE"], "apiGroups": ["example.com"],
                "apiVersions": ["v1"], "resources": ["websites"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    post(&admin, hooks, &hook).await.unwrap();
    let message = refusal(post(&admin, WEBSITES, &website("blog")).await, 400);
    assert!(
        message.contains("\"judge.example.com\" denied"),
        "{message}"
    );

    // As behind a kube-apiserver alone, the content of a namespace stays.
    let namespace = json!({"metadata": {"name": "gone"}});
    post(&admin, "/api/v1/namespaces", &namespace)
        .await
        .unwrap();
    let path = "/api/v1/namespaces/gone";
    let request = Request::delete(path).body(Vec::new()).unwrap();
    admin.request::<Value>(request).await.unwrap();
    let left = get(&admin, path).await.unwrap();
    assert_eq!(left["status"]["phase"], "Terminating");

    plane.stop().await;
}

#[tokio::test]
async fn the_key_the_issuer_and_the_network_are_those_of_the_flags() {
    let programs = Programs::new();
    let plane = ControlPlane::start(&programs, &[]).await;
    let admin = plane.user("default", &["system:masters"]);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&admin, accounts, &json!({"metadata": {"name": "robot"}}))
        .await
        .unwrap();
    let wanted = json!({"spec": {"expirationSeconds": 3600}});
    let token = post(&admin, &format!("{accounts}/robot/token"), &wanted)
        .await
        .unwrap();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let part = |index: usize| -> Value {
        let part = token.split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    assert_eq!(part(0)["alg"], "ES256");
    assert_eq!(part(1)["iss"], plane.issuer());
    let message = refusal(get(&plane.bearer(&token), CONFIG_MAPS).await, 403);
    assert!(
        message.contains("system:serviceaccount:default:robot"),
        "{message}"
    );
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let service = get(&admin, path).await.unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    plane.stop().await;
}

// SRV-ETCD-1, SRV-ETCD-2.
#[tokio::test]
async fn a_restarted_kube_apiserver_finds_its_objects() {
    let programs = Programs::new();
    let mut plane = ControlPlane::start(&programs, &[]).await;
    let admin = plane.user("default", &["system:masters"]);
    let created = post(&admin, CONFIG_MAPS, &config_map("a")).await.unwrap();
    let path = format!("{CONFIG_MAPS}/a");

    // A second server on the same etcd is refused while the first one lives.
    let said = plane.second_server(&programs).await;
    let expected = format!(
        "kube-apiserver: the etcd at {} keeps the objects of another kube-apiserver (process {}); stop \
         that one, or start an etcd with other --listen-client-urls\n",
        plane.etcd_url,
        plane.server_id()
    );
    assert_eq!(said, expected);
    get(&admin, &path).await.unwrap();

    // The answered write is saved, although the next half second has not begun.
    plane.restart_server(&programs).await;
    let admin = plane.user("default", &["system:masters"]);
    assert_eq!(get(&admin, &path).await.unwrap(), created);

    // A server that was killed does not keep its etcd.
    plane.kill_server().await;
    plane.start_server(&programs).await;
    let admin = plane.user("default", &["system:masters"]);
    assert_eq!(get(&admin, &path).await.unwrap(), created);

    // The data directory outlives etcd.
    plane.stop_server().await;
    plane.restart_etcd(&programs).await;
    plane.start_server(&programs).await;
    let admin = plane.user("default", &["system:masters"]);
    assert_eq!(get(&admin, &path).await.unwrap(), created);
    plane.stop().await;
}

#[tokio::test]
async fn a_kube_apiserver_saves_to_an_etcd_that_was_started_again() {
    let programs = Programs::new();
    let mut plane = ControlPlane::start(&programs, &[]).await;
    plane.restart_etcd(&programs).await;
    let admin = plane.user("default", &["system:masters"]);
    let created = post(&admin, CONFIG_MAPS, &config_map("a")).await.unwrap();
    plane.restart_server(&programs).await;
    let admin = plane.user("default", &["system:masters"]);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(get(&admin, &path).await.unwrap(), created);
    plane.stop().await;
}

#[tokio::test]
async fn an_open_watch_does_not_delay_the_stop() {
    let programs = Programs::new();
    let plane = ControlPlane::start(&programs, &[]).await;
    let admin = plane.user("default", &["system:masters"]);
    let watch = Request::get(format!("{CONFIG_MAPS}?watch=true"));
    let watch = watch.body(Vec::new()).unwrap();
    let _open = admin.request_stream(watch).await.unwrap();
    plane.stop().await;
}

#[tokio::test]
async fn five_environments_run_at_once() {
    let programs = Programs::new();
    let planes = join_all((0..5).map(|_| ControlPlane::start(&programs, &[]))).await;
    for (number, plane) in planes.iter().enumerate() {
        let admin = plane.user("default", &["system:masters"]);
        let mut object = config_map("same");
        object["data"]["number"] = json!(number.to_string());
        post(&admin, CONFIG_MAPS, &object).await.unwrap();
    }
    for (number, plane) in planes.iter().enumerate() {
        let admin = plane.user("default", &["system:masters"]);
        let found = get(&admin, &format!("{CONFIG_MAPS}/same")).await.unwrap();
        assert_eq!(found["data"]["number"], number.to_string());
    }
    join_all(planes.into_iter().map(ControlPlane::stop)).await;
}
