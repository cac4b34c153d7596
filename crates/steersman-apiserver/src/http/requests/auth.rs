//! Machine: authentication, impersonation and authorization of a request.

use std::sync::Arc;

use http::request::Parts;
use jiff::Timestamp;
use steersman_registry::Registry;
use steersman_registry::auth::{Attributes, Impersonations, User, bearer, wanted};
use steersman_text::status::Status;

/// The result of authentication and authorization.
#[derive(Debug)]
pub(crate) struct AuthOutcome {
    /// The user of the request, after impersonation.
    pub(crate) user: Arc<User>,
    /// The user that impersonates, if any.
    pub(crate) by: Option<Arc<User>>,
    /// The refusal, if the request may not go on (AUTH-1).
    pub(crate) refusal: Option<Box<Status>>,
}

impl AuthOutcome {
    fn refused(user: Arc<User>, by: Option<Arc<User>>, status: Status) -> Self {
        let refusal = Some(Box::new(status));
        Self { user, by, refusal }
    }
}

/// Authenticates, impersonates and authorizes a request, in the order of kube-apiserver's filters.
/// A request without credentials is attributed to the `default` user.
pub(crate) fn check(
    registry: &Registry,
    impersonations: &mut Impersonations,
    parts: &Parts,
    default: &Arc<User>,
    asked: &dyn Fn() -> Attributes,
    now: Timestamp,
) -> AuthOutcome {
    let authorizer = registry.authorizer();
    let known = bearer(&parts.headers).map(|token| registry.authenticate(token, &[], now));
    let presented = parts.headers.contains_key(http::header::AUTHORIZATION);
    let user = match known {
        Some(Ok(known)) => known.user,
        Some(Err(_)) | None if authorizer.allows_all() => Arc::clone(default),
        Some(Err(_)) => {
            let status = Status::failure(401, "Unauthorized", "Unauthorized");
            return AuthOutcome::refused(Arc::new(User::default()), None, status);
        }
        // An unknown credential makes the request anonymous.
        None if presented => Arc::new(User::anonymous()),
        None => Arc::clone(default),
    };
    let (user, by) = match wanted(&parts.headers) {
        Ok(None) => (user, None),
        Err(status) => return AuthOutcome::refused(user, None, status),
        Ok(Some(wanted)) => match impersonations.check(&authorizer, &user, &wanted, &asked()) {
            Ok(other) => (Arc::new(other), Some(user)),
            Err(status) => return AuthOutcome::refused(user, None, status),
        },
    };
    if !authorizer.allows_all() {
        let asked = asked();
        let decision = authorizer.authorize(&user, &asked);
        if !decision.allowed {
            let status = asked.forbidden(&user, &decision.reason);
            return AuthOutcome::refused(user, by, status);
        }
    }
    AuthOutcome {
        user,
        by,
        refusal: None,
    }
}
