//! Handle: the webhook that reviews bearer tokens, for an API server with webhook authentication.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use serde_json::{Value, json};
use steersman_object::{panic_text, report};
use steersman_serve::json_response;

/// Decides whether a bearer token is valid, and which user it belongs to.
pub trait TokenReviewer: Send + Sync + 'static {
    /// Reviews a token, which must be valid for one of `audiences`; an empty list means the audience of the API server.
    ///
    /// # Errors
    ///
    /// The reason why the review failed. The API server then treats the request as unauthenticated.
    fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<TokenDecision, Box<dyn std::error::Error + Send + Sync>>> + Send;
}

/// The result of the review of a token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TokenDecision {
    /// The token is valid.
    Authenticated {
        /// The user that the token belongs to.
        user: UserInfo,
        /// The requested audiences for which the token is valid.
        audiences: Vec<String>,
    },
    /// The token is invalid.
    Refused,
}

/// The largest body of a TokenReview in bytes, as in controller-runtime.
pub(crate) const MAX_BODY: usize = 1 << 20;

impl TokenDecision {
    /// Makes the result that a token belongs to a user in these groups.
    #[must_use]
    pub fn user(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let groups = groups.into_iter().collect();
        Self::Authenticated {
            user: UserInfo {
                username: Some(name.into()),
                groups: Some(groups),
                ..UserInfo::default()
            },
            audiences: Vec::new(),
        }
    }
}

pub(crate) async fn review(
    reviewer: &impl TokenReviewer,
    request: Request<Bytes>,
) -> Response<Bytes> {
    let body: Result<Value, _> = serde_json::from_slice(request.body());
    let version = match &body {
        Ok(body) if body["apiVersion"] == "authentication.k8s.io/v1beta1" => "v1beta1",
        _ => "v1",
    };
    // Lists are refused, because serde would also read a struct from a list of its fields.
    let has_lists = matches!(&body, Ok(body) if body.is_array() || body["spec"].is_array());
    let read = body.and_then(serde_json::from_value::<WireReview>);
    let status = match read {
        Err(error) => failed(&format!("the body is no TokenReview: {error}")),
        Ok(_) if has_lists => {
            failed("the body is no TokenReview: the review or its spec is a list")
        }
        Ok(review) if review.kind != "TokenReview" => failed("the body is no TokenReview"),
        Ok(review) if review.spec.token.is_empty() => failed("the review has no token"),
        Ok(review) => {
            let WireSpec { token, audiences } = review.spec;
            let decided = async { reviewer.review(&token, &audiences).await };
            match AssertUnwindSafe(decided).catch_unwind().await {
                Ok(Ok(decision)) => status_of(decision),
                Ok(Err(error)) => failed(&report(&*error).to_string()),
                // ADMIT-4: a panic of the reviewer fails only its own request.
                Err(payload) => {
                    failed(&format!("the reviewer panicked: {}", panic_text(&*payload)))
                }
            }
        }
    };
    let review = json!({
        "apiVersion": format!("authentication.k8s.io/{version}"),
        "kind": "TokenReview",
        "status": status,
    });
    json_response(StatusCode::OK, review.to_string())
}

#[derive(serde::Deserialize)]
struct WireReview {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: WireSpec,
}

/// The spec of a TokenReview. In k8s-openapi, `token` is optional in some versions, and so cannot be used here.
#[derive(Default, serde::Deserialize)]
struct WireSpec {
    #[serde(default)]
    token: String,
    #[serde(default)]
    audiences: Vec<String>,
}

fn status_of(decision: TokenDecision) -> TokenReviewStatus {
    match decision {
        TokenDecision::Authenticated { user, audiences } => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(user),
            audiences: Some(audiences).filter(|audiences| !audiences.is_empty()),
            error: None,
        },
        TokenDecision::Refused => TokenReviewStatus {
            authenticated: Some(false),
            ..TokenReviewStatus::default()
        },
    }
}

fn failed(error: &str) -> TokenReviewStatus {
    TokenReviewStatus {
        authenticated: Some(false),
        error: Some(error.to_owned()),
        ..TokenReviewStatus::default()
    }
}
