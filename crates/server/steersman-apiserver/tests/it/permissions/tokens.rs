//! Tests of the tokens of ServiceAccounts: their claims, and their invalidation.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Authorization, User};

use crate::permissions::{PODS, by, server};
use crate::support::ask;

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/bot/token";

/// Creates a server with a ServiceAccount `bot` and a Pod `p`.
fn with_bot() -> ApiServer {
    bot_of(server())
}

/// Adds the ServiceAccount and its Pod.
fn bot_of(server: ApiServer) -> ApiServer {
    let bot =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } });
    server.create(bot).unwrap();
    server.create(pod()).unwrap();
    server
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": {
            "serviceAccountName": "bot",
            "containers": [{ "name": "c", "image": "i" }],
        },
    })
}

async fn token(server: &ApiServer, spec: Value) -> String {
    let body = json!({ "spec": spec }).to_string();
    let made = ask(server, "POST", TOKEN, &[], body).await.expect(201);
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

/// Returns the claims of a token.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// The tokens that kubelets request for Pods last a year, and name the time after which their use is
/// worth a warning.
#[tokio::test(start_paused = true)]
async fn a_projected_token_of_a_pod_lasts_longer_than_requested() {
    let server = with_bot();
    let mut spec = of_pod();
    spec["expirationSeconds"] = json!(3607);
    let projected = claims(&token(&server, spec.clone()).await);
    let issued = projected["iat"].as_i64().unwrap();
    assert_eq!(projected["exp"], issued + 365 * 24 * 60 * 60);
    assert_eq!(projected["kubernetes.io"]["warnafter"], issued + 3607);
    // A token without a Pod, for another time or for another audience ends as requested.
    let free = json!({ "expirationSeconds": 3607 });
    let mut elsewhere = spec.clone();
    elsewhere["audiences"] = json!(["vault"]);
    spec["expirationSeconds"] = json!(3608);
    for spec in [free, elsewhere, spec] {
        let lasts = spec["expirationSeconds"].as_i64().unwrap();
        let plain = claims(&token(&server, spec).await);
        assert_eq!(plain["exp"], plain["iat"].as_i64().unwrap() + lasts);
        assert_eq!(plain["kubernetes.io"].get("warnafter"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_option_ends_projected_tokens_as_requested() {
    let server = ApiServer::builder().service_account_extend_token_expiration(false);
    let server = bot_of(server.build());
    let mut spec = of_pod();
    spec["expirationSeconds"] = json!(3607);
    let projected = claims(&token(&server, spec).await);
    assert_eq!(projected["exp"], projected["iat"].as_i64().unwrap() + 3607);
    assert_eq!(projected["kubernetes.io"].get("warnafter"), None);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_bound_only_to_a_pod_of_its_account() {
    let server = with_bot();
    let mut other = pod();
    other["metadata"]["name"] = json!("q");
    other["spec"]["serviceAccountName"] = json!("other");
    server.create(other).unwrap();
    let mut spec = of_pod();
    spec["boundObjectRef"]["name"] = json!("q");
    let body = json!({ "spec": spec }).to_string();
    let refused = ask(&server, "POST", TOKEN, &[], body).await.expect(400);
    assert_eq!(
        refused["message"],
        "cannot bind token for serviceaccount \"bot\" to pod running with different \
         serviceaccount name."
    );
}

#[tokio::test(start_paused = true)]
async fn a_static_token_is_one_for_the_server_and_no_part_of_snapshots() {
    let user = User::new("ann").uid("7").group("dev");
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .static_token("s3cret", user)
        .api_audiences(["api", "more"])
        .build();
    let known = review(&server, "s3cret", &[]).await;
    let expected = json!({
        "username": "ann", "uid": "7", "groups": ["dev", "system:authenticated"],
    });
    assert_eq!(known["user"], expected);
    assert_eq!(known["audiences"], json!(["api", "more"]));
    let known = review(&server, "s3cret", &["other", "more"]).await;
    assert_eq!(known["audiences"], json!(["more"]));
    let unknown = review(&server, "s3cret", &["other"]).await;
    assert_eq!(unknown["error"], "invalid bearer token");
    assert_eq!(code(&server, "s3cret").await, 403);
    assert_eq!(code(&server, "s3cre").await, 401);
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    assert!(!String::from_utf8(text).unwrap().contains("s3cret"));
}

/// AUTH-2: a token of a ServiceAccount becomes invalid with its expiry, its Pod and its account.
#[tokio::test(start_paused = true)]
async fn a_service_accounts_token_becomes_invalid_with_its_account_or_bound_object() {
    let server = with_bot();
    let free = token(&server, json!({})).await;
    let bound = token(&server, of_pod()).await;
    server.delete("pods", "default", "p").unwrap();
    assert_eq!(
        review(&server, &bound, &[]).await["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
    // Another Pod of the same name does not make the token valid.
    server.create(pod()).unwrap();
    let error = review(&server, &bound, &[]).await["error"].to_string();
    let why = "does not match service account pod ref claim";
    assert!(
        error.contains("pod UID (") && error.contains(why),
        "{error}"
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
