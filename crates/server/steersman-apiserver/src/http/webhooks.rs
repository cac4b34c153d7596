//! Room: calls of admission and conversion webhooks, and the check of the webhooks' certificates.

mod trust;
mod connections;
pub(crate) mod client;
