//! Room: authentication and authorization: the user of a request, and what the user may do.
//!
//! Invariants:
//!
//! - A request that authentication or authorization refuses is refused before its body is read and
//!   before its target is looked up (AUTH-1).
//! - A token is valid only as long as its ServiceAccount, and the object that it is bound to
//!   (AUTH-2).
//! - A user cannot grant permissions by a role or a binding that the user does not have, except
//!   with the verbs `escalate` or `bind` (AUTH-3).
//! - An impersonating user has the permissions of the impersonated user and none of the own ones
//!   (AUTH-4).
//! - A request that does the work of a second verb needs the permission for that verb too (AUTH-5).
//! - Some parts of a ResourceClaim's status need permissions of their own (AUTH-6).
//! - A token of a ServiceAccount is accepted only if one of the keys signed it and one of the issuers,
//!   or kube-controller-manager for a Secret, issued it (AUTH-8), and the key set verifies every token that the server issues (AUTH-9).

mod user;
mod attributes;
mod rule;
mod rbac;
mod escalation;
mod impersonate;
mod bootstrap;
mod reconciliation;
mod tokens;
mod public_key;
mod signing_key;
mod key_pem;
mod token_issuer;
mod certificate;

pub use attributes::Attributes;
pub use attributes::Authorization;
pub use bootstrap::{BootstrapObject, objects as bootstrap_objects};
pub use certificate::user_of;
pub use escalation::Escalation;
pub use impersonate::{Impersonations, node_of_account, wanted};
pub use rbac::{Authorizer, Decision};
pub use reconciliation::{Reconciliation, reconcile};
pub use rule::Rule;
pub use token_issuer::{ForeignToken, SECRET_ISSUER, TokenIssuer, TokenOptions, TokenSecret};
pub use tokens::{Tokens, bearer};
pub(crate) use user::CREDENTIAL_ID;
pub use user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    User,
};
