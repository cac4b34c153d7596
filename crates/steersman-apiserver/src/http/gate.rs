//! Machine: who a request comes from, and whether it may go on.

use std::sync::Arc;

use http::request::Parts;
use jiff::Timestamp;
use steersman_registry::Registry;
use steersman_registry::auth::{Attributes, Impersonations, User, bearer, wanted};
use steersman_text::status::Status;

/// What is known of a request before anything is done for it.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Who asks, or whom he acts as.
    pub(crate) user: Arc<User>,
    /// Who acts as that user.
    pub(crate) by: Option<Arc<User>>,
    /// Why the request goes no further (AUTH-1).
    pub(crate) refusal: Option<Box<Status>>,
}

impl Admitted {
    fn refused(user: Arc<User>, by: Option<Arc<User>>, status: Status) -> Self {
        let refusal = Some(Box::new(status));
        Self { user, by, refusal }
    }
}

/// Authenticates a request, lets it act as somebody else, and authorizes it, in the order of
/// kube-apiserver's filters. A request without a credential is the `default` user's.
pub(crate) fn admit(
    registry: &Registry,
    impersonations: &mut Impersonations,
    parts: &Parts,
    default: &Arc<User>,
    asked: &dyn Fn() -> Attributes,
    now: Timestamp,
) -> Admitted {
    let authorizer = registry.authorizer();
    let known = bearer(&parts.headers).map(|token| registry.authenticate(token, &[], now));
    let presented = parts.headers.contains_key(http::header::AUTHORIZATION);
    let user = match known {
        Some(Ok(known)) => known.user,
        Some(Err(_)) | None if authorizer.allows_all() => Arc::clone(default),
        Some(Err(_)) => {
            let status = Status::failure(401, "Unauthorized", "Unauthorized");
            return Admitted::refused(Arc::new(User::default()), None, status);
        }
        // A credential that is not understood is none.
        None if presented => Arc::new(User::anonymous()),
        None => Arc::clone(default),
    };
    let (user, by) = match wanted(&parts.headers) {
        Ok(None) => (user, None),
        Err(status) => return Admitted::refused(user, None, status),
        Ok(Some(wanted)) => match impersonations.check(&authorizer, &user, &wanted, &asked()) {
            Ok(other) => (Arc::new(other), Some(user)),
            Err(status) => return Admitted::refused(user, None, status),
        },
    };
    if !authorizer.allows_all() {
        let asked = asked();
        let decision = authorizer.authorize(&user, &asked);
        if !decision.allowed {
            let status = asked.forbidden(&user, &decision.reason);
            return Admitted::refused(user, by, status);
        }
    }
    Admitted {
        user,
        by,
        refusal: None,
    }
}
