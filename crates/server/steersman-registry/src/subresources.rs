//! Room: evictions, tokens, reviews, and permissions that a request needs besides the permission for its verb.

mod rights;
mod evict;
mod token;
pub(crate) mod bearer;
pub(crate) mod secret_token;
pub(crate) mod review;
