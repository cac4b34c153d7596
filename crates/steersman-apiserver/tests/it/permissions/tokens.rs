//! Tests of the tokens of ServiceAccounts: their claims, and their invalidation.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::permissions::{PODS, by, server};
use crate::support::ask;

/// Creates a server with a ServiceAccount `bot` and a Pod `p`.
fn with_bot() -> ApiServer {
    let server = server();
    let bot =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } });
    server.create(bot).unwrap();
    server.create(pod()).unwrap();
    server
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    })
}

async fn token(server: &ApiServer, spec: Value) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let body = json!({ "spec": spec }).to_string();
    let made = ask(server, "POST", path, &[], body).await.expect(201);
    made["status"]["token"].as_str().unwrap().to_owned()
}

fn of_pod() -> Value {
    json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } })
}

/// Returns the status of a TokenReview.
async fn review(server: &ApiServer, token: &str, audiences: &[&str]) -> Value {
    let body = json!({ "spec": { "token": token, "audiences": audiences } }).to_string();
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    ask(server, "POST", path, &[], body).await.expect(201)["status"].clone()
}

/// Returns the status code of a request with this token.
async fn code(server: &ApiServer, token: &str) -> u16 {
    by(server, token, "GET", PODS, &json!(null)).await.status
}

#[tokio::test(start_paused = true)]
async fn a_token_review_names_the_user_and_the_audiences() {
    let server = with_bot();
    let reviewed = review(&server, &token(&server, of_pod()).await, &[]).await;
    assert_eq!(reviewed["authenticated"], true);
    let user = &reviewed["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:bot");
    let groups = json!([
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated"
    ]);
    assert_eq!(user["groups"], groups);
    let pod = &user["extra"]["authentication.kubernetes.io/pod-name"];
    assert_eq!(*pod, json!(["p"]));
    assert_eq!(
        reviewed["audiences"],
        json!(["https://kubernetes.default.svc"])
    );

    let elsewhere = token(&server, json!({ "audiences": ["vault"] })).await;
    let reviewed = review(&server, &elsewhere, &["vault", "x"]).await;
    assert_eq!(reviewed["audiences"], json!(["vault"]));
    assert_eq!(
        review(&server, &elsewhere, &[]).await["error"],
        "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]]"
    );
}

/// AUTH-2: a token of a ServiceAccount becomes invalid with its expiry, its Pod and its account.
#[tokio::test(start_paused = true)]
async fn a_service_accounts_token_becomes_invalid_with_its_account_or_bound_object() {
    let server = with_bot();
    let free = token(&server, json!({})).await;
    let bound = token(&server, of_pod()).await;
    server.delete("pods", "default", "p").unwrap();
    // Another Pod of the same name does not make the token valid.
    server.create(pod()).ok();
    assert_eq!(
        review(&server, &bound, &[]).await["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
    assert_eq!(code(&server, &bound).await, 401);
    assert_eq!(code(&server, &free).await, 403);

    tokio::time::advance(Duration::from_secs(3_700)).await;
    assert_eq!(
        review(&server, &free, &[]).await["error"],
        "[invalid bearer token, service account token has expired]"
    );
    let fresh = token(&server, json!({})).await;
    assert_eq!(code(&server, &fresh).await, 403);
    server.delete("serviceaccounts", "default", "bot").unwrap();
    assert_eq!(code(&server, &fresh).await, 401);
}
