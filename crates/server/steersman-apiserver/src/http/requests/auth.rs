//! Machine: authentication, impersonation and authorization of a request.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;
use steersman_apimachinery::status::Status;
use steersman_auth::{Attributes, Impersonations, User, bearer, wanted};
use steersman_registry::Registry;

/// The client of a connection before its first request: by its TLS certificate or, in process, the service's user.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// A client without a certificate that names a user. Its requests without an `Authorization` header are requests of
    /// this user: over HTTPS the anonymous one.
    Usual(Arc<User>),
    Certificate(Arc<User>),
    BadCertificate,
}

#[derive(Debug)]
pub(crate) struct AuthOutcome {
    /// The user of the request, after impersonation; without a name if the request is answered 401.
    pub(crate) user: Arc<User>,
    pub(crate) by: Option<Arc<User>>,
    /// The refusal of a request that is not allowed (AUTH-1); `None` if the request is allowed.
    pub(crate) refusal: Option<Box<Status>>,
}

impl AuthOutcome {
    fn refused(user: Arc<User>, by: Option<Arc<User>>, status: Status) -> Self {
        let refusal = Some(Box::new(status));
        Self { user, by, refusal }
    }
}

/// Authenticates a request, checks its impersonation and authorizes it, in the order of kube-apiserver's filters.
pub(crate) fn check(
    registry: &Registry,
    impersonations: &mut Impersonations,
    parts: &Parts,
    caller: &Caller,
    asked: &dyn Fn() -> Attributes,
    now: Timestamp,
) -> AuthOutcome {
    let Some(user) = authenticate(registry, &parts.headers, caller, now) else {
        let status = Status::failure(401, "Unauthorized", "Unauthorized");
        return AuthOutcome::refused(Arc::new(User::default()), None, status);
    };
    let authorizer = registry.authorizer();
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
    let refusal = None;
    AuthOutcome { user, by, refusal }
}

/// Returns the user of a request, or `None` if no credential is accepted and one is wrong. As in kube-apiserver, an
/// accepted certificate precedes a token, and an accepted token is enough if the certificate is not accepted (AUTH-10).
fn authenticate(
    registry: &Registry,
    headers: &HeaderMap,
    caller: &Caller,
    now: Timestamp,
) -> Option<Arc<User>> {
    match (caller, bearer(headers)) {
        (Caller::Certificate(user), _) => Some(Arc::clone(user)),
        (_, Some(token)) => {
            let known = registry.authenticate(token, &[], now);
            known.ok().map(|known| known.user)
        }
        (Caller::BadCertificate, None) => None,
        // An `Authorization` header without a bearer token, such as one with a password, makes the user anonymous.
        (Caller::Usual(_), None) if headers.contains_key(AUTHORIZATION) => {
            Some(Arc::new(User::anonymous()))
        }
        (Caller::Usual(user), None) => Some(Arc::clone(user)),
    }
}
