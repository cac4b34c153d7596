//! Driver: access control by reviews of the API server: of the token, and of the permission for a path.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use parking_lot::Mutex;
use steersman_api::clock::now;
use steersman_api::kube_client::Client;
use steersman_api::{Api, ClientConfig};
use steersman_object::{TypedObject, report};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, error};

use crate::review_cache::ReviewCache;
use crate::routes::{AccessControl, text_response};
use crate::sign_in::{LONGEST_TOKEN, cookie_token};

/// Admits clients with a bearer token that the API server accepts, if its user may send the request.
///
/// A `TokenReview` finds the user of the token. A `SubjectAccessReview` checks the user's permission for the path and
/// the verb (`get` for GET), as the filter of controller-runtime does:
///
/// | request | response |
/// |---|---|
/// | without a bearer token, or with one that the api-server refuses | 401 |
/// | of a user without the permission for the path | 403 |
/// | while the reviews fail | 500 |
///
/// Results are cached: users for 1 min, permissions for 5 min, and refused permissions for 30 s (SERVE-6). A revoked
/// permission is thus valid for up to 6 min. The operator needs the verb `create` for
/// `tokenreviews.authentication.k8s.io` and `subjectaccessreviews.authorization.k8s.io`.
///
/// Cheap to clone; clones share the answers.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "ReviewedAccess {{ connection: {:?}, audiences: {:?}, .. }}",
    shared.client_config, shared.audiences
)]
#[must_use]
pub struct ReviewedAccess {
    shared: Arc<AccessShared>,
}

struct AccessShared {
    client_config: ClientConfig,
    audiences: Option<Vec<String>>,
    client: OnceCell<Client>,
    /// The user of each reviewed token; `None` for a refused token.
    users: Mutex<ReviewCache<String, Option<Arc<UserInfo>>>>,
    /// Whether each access review, keyed by the text of its spec, was allowed.
    permissions: Mutex<ReviewCache<String, bool>>,
    /// Limits the concurrent reviews, because clients could send ever new tokens.
    turns: Semaphore,
    last_error: Mutex<Option<Instant>>,
}

/// How long the user of a token is cached.
const USER_KEPT: Duration = Duration::from_secs(60);
/// How long a permission is cached.
const PERMISSION_KEPT: Duration = Duration::from_secs(300);
/// How long a refused permission is cached.
const REFUSAL_KEPT: Duration = Duration::from_secs(30);
/// The time limit of both reviews of a request, with retries. Prometheus gives up a scrape after 10 s by default; with
/// a shorter limit, the failure is logged and the client gets a response.
const REVIEW_LIMIT: Duration = Duration::from_secs(8);
/// The pause before the first retry of a review. Each later pause is 1.5 times as long.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const MOST_ANSWERS: usize = 1024;
const MOST_REVIEWS: usize = 8;
/// The pause between two log lines about one problem.
const LOG_PAUSE: Duration = Duration::from_secs(60);

type Refused = Response<Bytes>;

impl ReviewedAccess {
    /// Makes the access control. Reviews are sent to the API server of `client_config` with its credentials.
    pub fn new(client_config: ClientConfig) -> Self {
        Self::of(client_config, None)
    }

    /// Makes an access control like [`new`](Self::new), for tokens that are issued for one of these audiences. The
    /// default audience is the API server.
    pub fn with_audiences<A: Into<String>>(
        client_config: ClientConfig,
        audiences: impl IntoIterator<Item = A>,
    ) -> Self {
        let audiences = audiences.into_iter().map(Into::into).collect();
        Self::of(client_config, Some(audiences))
    }

    fn of(client_config: ClientConfig, audiences: Option<Vec<String>>) -> Self {
        let shared = AccessShared {
            client_config,
            audiences,
            client: OnceCell::new(),
            users: Mutex::new(ReviewCache::new(MOST_ANSWERS)),
            permissions: Mutex::new(ReviewCache::new(MOST_ANSWERS)),
            turns: Semaphore::new(MOST_REVIEWS),
            last_error: Mutex::new(None),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl AccessControl for ReviewedAccess {
    async fn admit(&self, head: &Parts) -> Result<(), Refused> {
        let Some(token) = bearer(&head.headers) else {
            return Err(unauthorized());
        };
        let deadline = Instant::now() + REVIEW_LIMIT;
        let Some(user) = self.shared.user(token, deadline).await? else {
            return Err(unauthorized());
        };
        let verb = head.method.as_str().to_ascii_lowercase();
        if self
            .shared
            .is_permitted(&user, &verb, head.uri.path(), deadline)
            .await?
        {
            return Ok(());
        }
        let name = user.username.as_deref().unwrap_or_default();
        Err(text_response(
            StatusCode::FORBIDDEN,
            format!("Authorization denied for user {name}"),
        ))
    }
}

impl AccessShared {
    /// Returns the user of a token; `None` if the server refuses the token.
    async fn user(&self, token: &str, deadline: Instant) -> Result<Option<Arc<UserInfo>>, Refused> {
        let question = token.to_owned();
        if let Some(known) = self.users.lock().get(&question, now()) {
            return Ok(known);
        }
        let mut review = TokenReview {
            spec: TokenReviewSpec {
                audiences: self.audiences.clone(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        set(&mut review.spec.token, question.clone());
        let review = self.review(&review, deadline).await;
        let Some(answer) = review else {
            return Err(failed("Authentication failed"));
        };
        let status = answer.status.unwrap_or_default();
        if let Some(problem) = status.error.filter(|problem| !problem.is_empty()) {
            debug!(problem, "the api-server refuses the token of a client");
        }
        let is_user = status.authenticated == Some(true)
            && is_for(self.audiences.as_deref(), status.audiences.as_deref());
        let user = status.user.filter(|_| is_user).map(Arc::new);
        let mut users = self.users.lock();
        users.put(question, user.clone(), USER_KEPT, now());
        Ok(user)
    }

    async fn is_permitted(
        &self,
        user: &UserInfo,
        verb: &str,
        path: &str,
        deadline: Instant,
    ) -> Result<bool, Refused> {
        let spec = SubjectAccessReviewSpec {
            extra: user.extra.clone(),
            groups: user.groups.clone(),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            uid: user.uid.clone(),
            user: user.username.clone(),
            ..SubjectAccessReviewSpec::default()
        };
        // The key is the whole spec, so that two different users never share a key.
        let question = format!("{spec:?}");
        if let Some(known) = self.permissions.lock().get(&question, now()) {
            return Ok(known);
        }
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let Some(answer) = self.review(&review, deadline).await else {
            return Err(failed("Authorization failed"));
        };
        let status = answer.status.unwrap_or_default();
        let allowed = status.allowed && status.denied != Some(true);
        let kept = if allowed {
            PERMISSION_KEPT
        } else {
            REFUSAL_KEPT
        };
        self.permissions.lock().put(question, allowed, kept, now());
        Ok(allowed)
    }

    /// Sends a review, and retries temporary failures. Logs a failure, and returns `None`.
    async fn review<K: TypedObject>(&self, review: &K, deadline: Instant) -> Option<K> {
        let tries = async {
            let _turn = self.turns.acquire().await;
            let client = self.client.get_or_try_init(|| self.client_config.connect());
            let api = Api::<K>::typed(client.await?.clone()).request_timeout(REVIEW_LIMIT);
            let mut pause = FIRST_RETRY;
            loop {
                match api.review(review).await {
                    Err(error) if may_pass(&error) => {
                        debug!(error = %report(&error), "a review failed and is sent again");
                        sleep(error.retry_after().unwrap_or(pause)).await;
                        pause = pause.mul_f64(1.5);
                    }
                    answer => return answer,
                }
            }
        };
        match timeout_at(deadline, tries).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => self.log(&report(&error)),
            Err(_) => self.log(&format_args!("no answer within {REVIEW_LIMIT:?}")),
        }
        None
    }

    /// Logs a failed review at most once per minute.
    fn log(&self, problem: &dyn fmt::Display) {
        if is_log_due(&mut self.last_error.lock()) {
            error!(
                error = %problem,
                "clients get a 500, because the api-server does not review their requests"
            );
        }
    }
}

/// Returns whether a repeated problem may be logged now, and records the time if so: at most once per minute.
pub(crate) fn is_log_due(last: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= LOG_PAUSE);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// Returns whether a failure may be temporary: no response, or the response of an overloaded or broken server.
fn may_pass(error: &steersman_api::Error) -> bool {
    match error.code() {
        Some(code) => code == 429 || code >= 500,
        None => error.is_transport(),
    }
}

/// Returns whether a token that is valid for the audiences `granted` is valid for one of `wanted`.
fn is_for(wanted: Option<&[String]>, granted: Option<&[String]>) -> bool {
    let Some(wanted) = wanted else { return true };
    let granted = granted.unwrap_or_default();
    wanted.iter().any(|audience| granted.contains(audience))
}

/// Returns the token of the `Authorization` header or, without this header, of the cookie of a [sign-in](crate::SignIn).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return cookie_token(headers).filter(|token| is_usable(token));
    };
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && is_usable(token)).then_some(token)
}

fn is_usable(token: &str) -> bool {
    !token.is_empty() && token.len() <= LONGEST_TOKEN
}

pub(crate) fn unauthorized() -> Refused {
    let mut response = text_response(StatusCode::UNAUTHORIZED, "Unauthorized");
    let bearer = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    response
}

fn failed(text: &str) -> Refused {
    text_response(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Sets a field that is required in some versions of the Kubernetes API and optional in others: the token of a
/// `TokenReviewSpec` is required from 1.36 on.
fn set<T: From<String>>(field: &mut T, value: String) {
    *field = value.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_of_a_sensible_length_is_read() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(read("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(read("bearer  abc ").as_deref(), Some("abc"));
        for wrong in ["Basic abc", "Bearer", "Bearer  ", "abc"] {
            assert_eq!(read(wrong), None);
        }
        let long = format!("Bearer {}", "x".repeat(LONGEST_TOKEN + 1));
        assert_eq!(read(&long), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_token_is_for_a_wanted_audience_or_refused() {
        let of =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        assert!(is_for(None, None));
        assert!(is_for(Some(&of(&["a", "b"])), Some(&of(&["b"]))));
        assert!(!is_for(Some(&of(&["a"])), Some(&of(&["b"]))));
        // A server that does not support audiences returns none.
        assert!(!is_for(Some(&of(&["a"])), None));
    }
}
