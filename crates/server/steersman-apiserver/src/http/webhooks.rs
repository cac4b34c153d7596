//! Room: calls of webhooks.

mod trust;
mod connections;
pub(crate) mod client;
