//! Room: calls of webhooks.

mod trust;
pub(crate) mod client;
