//! Authentication and authorization of the embedded API server: the user of a request, and what the user may do.
//!
//! ```
//! use steersman_auth::{Attributes, Authorization, Authorizer, User};
//! use steersman_store::Store;
//!
//! let store = Store::new(1000, 1 << 20);
//! let authorizer = Authorizer::new(Authorization::Rbac, &store);
//! let asked = Attributes::of("get", "", "secrets", "a");
//! assert!(authorizer.authorize(&User::admin(), &asked).allowed);
//! assert!(!authorizer.authorize(&User::anonymous(), &asked).allowed);
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! Invariants:
//!
//! - A request that authentication or authorization refuses is refused before its body is read and
//!   before its target is looked up (AUTH-1).
//! - A token is valid only as long as its ServiceAccount and the object that the token is bound to (AUTH-2).
//! - A user cannot grant permissions by a role or a binding that the user does not have, except
//!   with the verbs `escalate` or `bind` (AUTH-3).
//! - A user that impersonates another user has the permissions of that user and none of their own (AUTH-4).
//! - A request that does the work of a second verb also needs the permission for that verb (AUTH-5).
//! - Some parts of a ResourceClaim's status need permissions of their own (AUTH-6).
//! - A token of a ServiceAccount is accepted only if one of the keys signed it and one of the issuers,
//!   or kube-controller-manager for a Secret, issued it (AUTH-8), and the key set verifies every token that
//!   the server issues (AUTH-9).
//!
//! # Reading order
//!
//! - `option_error` has [`OptionError`], an option of a server that cannot be used.
//! - `user` has [`User`], the user of a request, and `attributes` the request by which permissions are checked.
//! - `rbac` decides by roles and bindings, with the rules of `rule`; `escalation` refuses grants that the user does not
//!   have.
//! - `impersonate` replaces the user of a request by the user in its headers.
//! - `bootstrap` and `reconciliation` have the roles that every server has, from the table `src/bootstrap.txt`.
//! - `tokens`, `certificate` and `token_issuer` authenticate the user. `token_issuer` signs the tokens of
//!   ServiceAccounts and checks their signatures, with the keys of `public_key`, `signing_key` and `key_pem`.

mod option_error;
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

pub use attributes::{Attributes, Authorization};
pub use bootstrap::{BootstrapObject, objects as bootstrap_objects};
pub use certificate::user_of;
pub use escalation::Escalation;
pub use impersonate::{Impersonations, node_of_account, wanted};
pub use option_error::OptionError;
pub use rbac::{Authorizer, Decision};
pub use reconciliation::{Reconciliation, reconcile};
pub use rule::Rule;
pub use token_issuer::{ForeignToken, SECRET_ISSUER, TokenIssuer, TokenOptions, TokenSecret};
pub use tokens::{Tokens, bearer};
pub use user::{
    ANONYMOUS, AUTHENTICATED, CREDENTIAL_ID, MASTERS, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS,
    UNAUTHENTICATED, User,
};
