//! Tests invalid requests: each one gets a clear response, and the webhooks keep working.

use std::future::pending;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_webhook::{
    AdmissionContext, AdmissionResponse, Defaulter, InProcessWebhooks, Refusal, WebhookServer,
};
use tower::ServiceExt as _;

use crate::world::{Site, World, site};

struct Nothing;

impl Defaulter<Site> for Nothing {
    async fn default(&self, site: &mut Site, _: &AdmissionContext) -> Result<(), Refusal> {
        match site.spec.host.as_str() {
            "panic" => panic!("on purpose"),
            "slow" => pending().await,
            _ => Ok(()),
        }
    }
}

const PATH: &str = "/mutate-example-com-v1-site";

fn webhooks() -> WebhookServer {
    WebhookServer::new("0").defaulter::<Site>(Nothing)
}

async fn post(webhooks: &InProcessWebhooks, content_type: &str, body: Bytes) -> (u16, Bytes) {
    let request = Request::post(format!("{PATH}?timeout=10s"))
        .header("content-type", content_type)
        .body(Full::new(body))
        .unwrap();
    let response = webhooks.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (
        code,
        response.into_body().collect().await.unwrap().to_bytes(),
    )
}

fn review(kind: &str, object: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "kind": {"group": "example.com", "version": "v1", "kind": kind},
        "resource": {"group": "example.com", "version": "v1", "resource": "sites"},
        "operation": "CREATE", "object": object,
    }})
}

async fn decided(webhooks: &InProcessWebhooks, review: &Value) -> Value {
    let body = Bytes::from(review.to_string());
    let (code, body) = post(webhooks, "application/json", body).await;
    assert_eq!(code, 200);
    let answer: Value = serde_json::from_slice(&body).unwrap();
    answer["response"].clone()
}

/// ADMIT-1, ADMIT-3
#[tokio::test(start_paused = true)]
async fn a_review_that_cannot_be_decided_is_refused_with_a_400_that_says_why() {
    let webhooks = webhooks().in_process().unwrap();
    let good = site("a", &json!({"host": "a"}));
    let other_kind = review("Page", &good);
    let mut empty = review("Site", &good);
    empty["request"]["object"] = json!(null);
    let wrong = review("Site", &site("a", &json!({"host": []})));
    let list = review("Site", &json!([1]));
    for (review, problem) in [
        (
            other_kind,
            "decides Site.v1.example.com and was sent Page.v1.example.com",
        ),
        (empty, "the request has no object"),
        (wrong, "spec.host: invalid type"),
        (list, "cannot be read as Site.v1.example.com"),
        (json!({}), "apiVersion is null"),
    ] {
        let response = decided(&webhooks, &review).await;
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 400, "{response}");
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(problem), "{message}");
    }
    let again = review("Site", &good);
    for _ in 0..2 {
        let response = decided(&webhooks, &again).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_another_type_or_beyond_the_limit_gets_a_response_of_http() {
    let webhooks = webhooks().in_process().unwrap();
    let (code, _) = post(&webhooks, "application/yaml", Bytes::from_static(b"a: 1")).await;
    assert_eq!(code, 415);
    let large = Bytes::from(vec![b' '; (7 << 20) + 1]);
    let (code, text) = post(&webhooks, "application/json", large).await;
    assert_eq!(code, 413);
    assert_eq!(text, "the body is larger than 7340032 bytes\n");
    let (code, _) = post(&webhooks, "application/json; charset=utf-8", Bytes::new()).await;
    assert_eq!(code, 200);
}

/// ADMIT-4: a panic or a missed deadline fails one request alone.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_missed_deadline_are_responses_that_name_the_webhook() {
    let webhooks = webhooks().in_process().unwrap();
    for (host, code, text) in [
        (
            "panic",
            500,
            "the webhook /mutate-example-com-v1-site panicked: on purpose",
        ),
        (
            "slow",
            504,
            "the webhook /mutate-example-com-v1-site did not decide in the time that the request gave",
        ),
    ] {
        let review = review("Site", &site("a", &json!({"host": host})));
        let response = decided(&webhooks, &review).await;
        assert_eq!(response["status"]["code"], code);
        assert_eq!(response["status"]["message"], text);
    }
    let review = review("Site", &site("a", &json!({"host": "a"})));
    assert_eq!(decided(&webhooks, &review).await["allowed"], true);
}

/// ADMIT-4: a panic or a missed deadline fails one request alone.
#[tokio::test(start_paused = true)]
async fn the_api_server_shows_a_panic_of_a_webhook_to_its_user() {
    let world = World::calling(&webhooks());
    let refused = world.create(&site("a", &json!({"host": "panic"}))).await;
    assert_eq!(refused.code, 500, "{}", refused.body);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("panicked: on purpose"), "{message}");
}

#[test]
fn two_webhooks_of_one_path_are_refused_before_anything_runs() {
    let twice = webhooks().defaulter::<Site>(Nothing);
    let error = twice.check().unwrap_err().to_string();
    assert!(error.contains(PATH), "{error}");
    let nowhere = WebhookServer::new(":9443").handler("relative", |_: AdmissionContext| async {
        AdmissionResponse::allowed()
    });
    assert!(nowhere.check().is_err());
}
