//! Tests reviews of bearer tokens.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_webhook::{InProcessWebhooks, TokenDecision, TokenReviewer, WebhookServer};
use tower::ServiceExt as _;

struct Tokens;

impl TokenReviewer for Tokens {
    async fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<TokenDecision, Box<dyn std::error::Error + Send + Sync>> {
        match token {
            "good" => Ok(TokenDecision::user("jane", ["authors".to_owned()])),
            "away" => Err("the identity provider cannot be reached".into()),
            "panic" => panic!("on purpose"),
            _ => Ok(TokenDecision::Refused),
        }
        .inspect(|_| assert_eq!(audiences, ["api"]))
    }
}

async fn review(webhooks: &InProcessWebhooks, body: String) -> Value {
    let request = Request::post("/authenticate")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = webhooks.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_review_of_a_token_gets_a_status_in_its_version() {
    let webhooks = WebhookServer::new("0").token_reviewer("/authenticate", Tokens);
    let webhooks = webhooks.in_process().unwrap();
    for (token, status) in [
        (
            "good",
            json!({"authenticated": true, "user": {"username": "jane", "groups": ["authors"]}}),
        ),
        ("bad", json!({"authenticated": false})),
        (
            "away",
            json!({"authenticated": false, "error": "the identity provider cannot be reached"}),
        ),
        (
            "panic",
            json!({"authenticated": false, "error": "the reviewer panicked: on purpose"}),
        ),
        (
            "",
            json!({"authenticated": false, "error": "the review has no token"}),
        ),
    ] {
        for version in ["v1", "v1beta1"] {
            let api_version = format!("authentication.k8s.io/{version}");
            let sent = json!({"apiVersion": api_version, "kind": "TokenReview",
                "spec": {"token": token, "audiences": ["api"]}});
            let answer = review(&webhooks, sent.to_string()).await;
            assert_eq!(answer["status"], status);
            assert_eq!(answer["apiVersion"], api_version);
        }
    }
    for body in [
        "",
        "[]",
        "{\"kind\":\"Pod\"}",
        // A review in which lists stand for structs.
        "[\"TokenReview\",[\"good\",[\"api\"]]]",
        "{\"kind\":\"TokenReview\",\"spec\":[\"good\",[\"api\"]]}",
    ] {
        let answer = review(&webhooks, body.to_owned()).await;
        assert_eq!(answer["status"]["authenticated"], false);
        let error = answer["status"]["error"].as_str().unwrap();
        assert!(error.starts_with("the body is no TokenReview"), "{error}");
    }
}
