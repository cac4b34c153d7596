//! Room: evictions, tokens and reviews.

mod rights;
mod evict;
mod token;
pub(crate) mod bearer;
pub(crate) mod secret_token;
pub(crate) mod review;
