//! Room: who asks, and what they may do.
//!
//! Invariants: a request that is refused here is refused before its body is read and before what it
//! names is looked up (AUTH-1); a token is worth no more than the ServiceAccount, and the object,
//! that it was made for (AUTH-2); nobody grants by a role or a binding what he may not do himself,
//! unless the verbs `escalate` or `bind` let him (AUTH-3); whoever impersonates may do what the one
//! he acts as may do, and nothing of his own (AUTH-4); a request that does the work of a second verb
//! needs the right to that verb too (AUTH-5); the parts of a ResourceClaim's status are written with
//! rights of their own (AUTH-6).

mod user;
mod attributes;
mod rule;
mod rbac;
mod escalation;
mod impersonate;
mod bootstrap;
mod tokens;
mod certificate;

pub use attributes::Attributes;
pub use attributes::Authorization;
pub use bootstrap::{aggregated, objects as bootstrap_objects};
pub use certificate::user_of;
pub use escalation::Escalation;
pub use impersonate::{Impersonations, node_of_account, wanted};
pub use rbac::{Authorizer, Decision};
pub use rule::Rule;
pub use tokens::{Key, Tokens, bearer};
pub use user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    User,
};
