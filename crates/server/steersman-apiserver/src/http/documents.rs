//! Room: the documents about the server: discovery, OpenAPI, health, metrics, and the issuer of tokens.

pub(crate) mod cache;
mod health;
pub(crate) mod metrics;
pub(crate) mod serve;
pub(crate) mod issuer;
