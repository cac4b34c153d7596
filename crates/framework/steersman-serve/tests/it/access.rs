//! Tests access control by reviews of the embedded API server.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::auth::{Authorization, User};
use steersman_serve::{AccessControl as _, ReviewedAccess};

/// Makes a server with RBAC: the user `prometheus` may read `/metrics`, and the operator may send reviews.
fn server() -> ApiServer {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let rules = [
        (
            "prometheus",
            json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]),
        ),
        (
            "operator",
            json!([
                { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
                { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
            ]),
        ),
    ];
    for (name, rules) in rules {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name }, "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
        });
        server.create(role).unwrap();
        server.create(binding).unwrap();
    }
    server
}

fn operator(server: &ApiServer) -> ReviewedAccess {
    let service = server.service_as(User::new("operator"));
    ReviewedAccess::new(ClientConfig::in_process(service, "default"))
}

async fn ask(access: &ReviewedAccess, path: &str, token: Option<&str>) -> StatusCode {
    let mut request = http::Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    match access.admit(&head).await {
        Ok(()) => StatusCode::OK,
        Err(refused) => refused.status(),
    }
}

fn reviews(server: &ApiServer) -> usize {
    server.requests().all().len()
}

/// SERVE-5: a request without a valid token or a permission is refused before its body is read.
#[tokio::test(start_paused = true)]
async fn tokens_and_permissions_decide() {
    let server = server();
    let good = server.add_user(User::new("prometheus"));
    let other = server.add_user(User::new("ann"));
    let access = operator(&server);
    assert_eq!(ask(&access, "/metrics", Some(&good)).await, 200);
    assert_eq!(ask(&access, "/metrics", Some("wrong")).await, 401);
    assert_eq!(ask(&access, "/metrics", None).await, 401);
    assert_eq!(ask(&access, "/metrics", Some(&other)).await, 403);
    assert_eq!(ask(&access, "/debug", Some(&good)).await, 403);
}

/// SERVE-6: users and permissions are kept for a limited time.
#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_their_time() {
    let server = server();
    let good = server.add_user(User::new("prometheus"));
    let other = server.add_user(User::new("ann"));
    let access = operator(&server);
    // Counts the reviews of a request: one for the token, and one for the permission.
    let cost = async |token: &str| {
        let before = reviews(&server);
        ask(&access, "/metrics", Some(token)).await;
        reviews(&server) - before
    };
    let pass = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!((cost(&good).await, cost(&good).await), (2, 0));
    assert_eq!((cost(&other).await, cost(&other).await), (2, 0));
    assert_eq!((cost("wrong").await, cost("wrong").await), (1, 0));
    pass(31).await;
    assert_eq!((cost(&good).await, cost(&other).await), (0, 1));
    pass(30).await;
    assert_eq!((cost(&good).await, cost("wrong").await), (1, 1));
    pass(240).await;
    assert_eq!(cost(&good).await, 2);
}

/// SERVE-5: a request without a valid token or a permission is refused before its body is read.
#[tokio::test(start_paused = true)]
async fn an_operator_that_may_not_review_answers_500() {
    let server = server();
    let good = server.add_user(User::new("prometheus"));
    let service = server.service_as(User::new("stranger"));
    let access = ReviewedAccess::new(ClientConfig::in_process(service, "default"));
    assert_eq!(ask(&access, "/metrics", Some(&good)).await, 500);
    assert_eq!(reviews(&server), 1, "a refusal is not tried again");
    // A failed review is not cached.
    assert_eq!(ask(&access, "/metrics", Some(&good)).await, 500);
    assert_eq!(reviews(&server), 2);
}
