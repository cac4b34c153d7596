//! Room: evictions, tokens, reviews, and permissions that a request needs in addition.

mod rights;
mod evict;
mod token;
pub(crate) mod bearer;
pub(crate) mod secret_token;
pub(crate) mod review;
