//! Every verb answers the same values in both encodings.

use serde_json::{Value, json};

use super::{BinaryAnswer, DEPLOYMENTS, PODS, PROTOBUF, fetch, pod};
use crate::support::{CONFIG_MAPS, config_map, deployment, server};

/// One request: method, path, content type and body.
type Step = (&'static str, String, &'static str, Value);

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn step(method: &'static str, path: impl Into<String>, body: Value) -> Step {
    (method, path.into(), JSON, body)
}

/// Sends the requests to a new server. The answers depend on nothing else.
async fn answers(steps: &[Step], accept: &str) -> Vec<BinaryAnswer> {
    let server = server();
    let mut answers = Vec::new();
    for (method, path, content_type, body) in steps {
        let headers = [("accept", accept), ("content-type", *content_type)];
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        answers.push(fetch(&server, (method, path), &headers, body).await);
    }
    answers
}

/// Compares the answers of two servers to the same requests, one of them in protobuf.
async fn compare(steps: &[Step]) -> Vec<u16> {
    let json = answers(steps, JSON).await;
    let protobuf = answers(steps, PROTOBUF).await;
    for ((step, json), protobuf) in steps.iter().zip(&json).zip(&protobuf) {
        let what = format!("{} {}", step.0, step.1);
        assert_eq!(json.status, protobuf.status, "{what}");
        assert_eq!(json.content_type(), JSON, "{what}");
        assert_eq!(protobuf.content_type(), PROTOBUF, "{what}");
        assert_eq!(protobuf.value(), json.value(), "{what}");
    }
    json.iter().map(|answer| answer.status).collect()
}

#[tokio::test(start_paused = true)]
async fn every_verb_answers_the_same_values() {
    let one = format!("{DEPLOYMENTS}/d");
    let applied = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "applied" },
        "data": { "a": "1" },
        "binaryData": { "b": "AAEC" },
    });
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/f"] } });
    let scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": { "name": "d", "namespace": "default" },
        "spec": { "replicas": 5 },
    });
    let statuses = compare(&[
        step("POST", DEPLOYMENTS, deployment("d")),
        step("GET", &one, Value::Null),
        step("PUT", &one, deployment("d")),
        (
            "PATCH",
            one.clone(),
            MERGE,
            json!({ "spec": { "paused": true } }),
        ),
        (
            "PATCH",
            format!("{one}/status"),
            MERGE,
            json!({ "status": { "replicas": 1, "unavailableReplicas": 1 } }),
        ),
        step("GET", format!("{one}/scale"), Value::Null),
        step("PUT", format!("{one}/scale"), scale),
        (
            "PATCH",
            format!("{one}/scale"),
            MERGE,
            json!({ "spec": { "replicas": 0 } }),
        ),
        (
            "PATCH",
            format!("{CONFIG_MAPS}/applied?fieldManager=me"),
            APPLY,
            applied,
        ),
        step("POST", CONFIG_MAPS, held),
        step("POST", PODS, pod("a")),
        step("POST", format!("{PODS}?dryRun=All"), pod("dry")),
        step("GET", PODS, Value::Null),
        step("GET", CONFIG_MAPS, Value::Null),
        step("GET", "/api/v1/namespaces?limit=2", Value::Null),
        step("DELETE", format!("{CONFIG_MAPS}/applied"), Value::Null),
        step("DELETE", format!("{CONFIG_MAPS}/held"), Value::Null),
        step(
            "DELETE",
            format!("{PODS}/a"),
            json!({ "gracePeriodSeconds": 30 }),
        ),
        step("DELETE", DEPLOYMENTS, Value::Null),
        step("DELETE", "/api/v1/namespaces/default", Value::Null),
        step(
            "POST",
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "x" } }),
        ),
        step("DELETE", "/api/v1/namespaces/x", Value::Null),
    ])
    .await;
    assert_eq!(
        statuses,
        [
            201, 200, 200, 200, 200, 200, 200, 200, 201, 201, 201, 201, 200, 200, 200, 200, 200,
            200, 200, 403, 201, 200
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn subresources_and_reviews_answer_the_same_values() {
    let node = json!({ "kind": "Binding", "apiVersion": "v1", "metadata": { "name": "a" },
        "target": { "kind": "Node", "name": "n" } });
    let eviction = |name| json!({ "kind": "Eviction", "apiVersion": "policy/v1", "metadata": { "name": name } });
    let account = "/api/v1/namespaces/default/serviceaccounts";
    let access = json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    let statuses = compare(&[
        step("POST", PODS, pod("a")),
        step("POST", format!("{PODS}/a/binding"), node),
        step("POST", format!("{PODS}/a/eviction"), eviction("a")),
        step("POST", format!("{PODS}/b/eviction"), eviction("b")),
        step("POST", account, json!({ "metadata": { "name": "robot" } })),
        step(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            access,
        ),
        step(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({ "spec": { "namespace": "default" } }),
        ),
        step(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({}),
        ),
        step(
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({ "spec": { "token": "t" } }),
        ),
    ])
    .await;
    assert_eq!(statuses, [201, 201, 201, 404, 201, 201, 201, 201, 201]);
    // Each server signs tokens with a key of its own.
    let server = server();
    server
        .create(
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "r" } }),
        )
        .unwrap();
    let path = format!("{account}/r/token");
    let answer = fetch(
        &server,
        ("POST", &path),
        &[("accept", PROTOBUF)],
        "{\"spec\":{}}",
    )
    .await;
    assert_eq!((answer.status, answer.content_type()), (201, PROTOBUF));
    let request = answer.value();
    assert_eq!(request["kind"], "TokenRequest");
    assert!(request["status"]["token"].as_str().unwrap().len() > 100);
}

#[tokio::test(start_paused = true)]
async fn errors_are_a_status_in_protobuf() {
    let mut invalid = config_map("a");
    invalid["data"] = json!({ "no key!": "v" });
    let mut stale = config_map("a");
    stale["metadata"]["resourceVersion"] = json!("1");
    let statuses = compare(&[
        step("GET", format!("{CONFIG_MAPS}/absent"), Value::Null),
        step("POST", CONFIG_MAPS, config_map("a")),
        step("POST", CONFIG_MAPS, config_map("a")),
        step("PUT", format!("{CONFIG_MAPS}/a"), stale),
        step("POST", CONFIG_MAPS, invalid),
        step("GET", format!("{CONFIG_MAPS}?limit=x"), Value::Null),
        step(
            "GET",
            format!("{CONFIG_MAPS}?resourceVersion=99999"),
            Value::Null,
        ),
        step("GET", "/apis/apps/v1/nothing", Value::Null),
        step("PATCH", CONFIG_MAPS, Value::Null),
        step("PATCH", format!("{CONFIG_MAPS}/a"), Value::Null),
    ])
    .await;
    assert_eq!(statuses, [404, 201, 409, 409, 422, 400, 504, 404, 405, 415]);
    // A request is refused before its route is known.
    let server = crate::permissions::server();
    let headers = [("accept", PROTOBUF), ("authorization", "Bearer unknown")];
    let refused = fetch(&server, ("GET", CONFIG_MAPS), &headers, "").await;
    assert_eq!((refused.status, refused.content_type()), (401, PROTOBUF));
    assert_eq!(refused.value()["reason"], "Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn other_versions_of_a_kind_answer_the_same_values() {
    let hpa = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "h" },
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 80 } } }],
        },
    });
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": "e" },
        "involvedObject": { "kind": "Pod", "name": "a", "namespace": "default" },
        "reason": "Started",
        "message": "started",
        "type": "Normal",
    });
    let scalers = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    compare(&[
        step("POST", scalers("v2"), hpa),
        step("GET", format!("{}/h", scalers("v1")), Value::Null),
        step("GET", scalers("v1"), Value::Null),
        step("GET", scalers("v2"), Value::Null),
        step("POST", "/api/v1/namespaces/default/events", event),
        step("GET", format!("{newer}/e"), Value::Null),
        step("GET", newer, Value::Null),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn pages_in_protobuf_continue_one_another() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        server.create(config_map(name)).unwrap();
    }
    let (mut token, mut names) = (String::new(), Vec::new());
    loop {
        let path = format!("{CONFIG_MAPS}?limit=2&continue={token}");
        let page = super::get_as(&server, &path, PROTOBUF).await.value();
        let json = super::get_as(&server, &path, JSON).await.value();
        assert_eq!(page, json);
        names.extend(page["items"].as_array().unwrap().iter().map(|item| {
            let name = item["metadata"]["name"].as_str().unwrap();
            name.to_owned()
        }));
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}
