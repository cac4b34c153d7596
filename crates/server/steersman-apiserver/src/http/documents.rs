//! Room: the documents about the server: discovery, OpenAPI, health, metrics,
//! and the issuer of tokens.

mod discovery;
mod openapi_paths;
mod members;
mod openapi_groups;
mod openapi_reduction;
mod openapi;
mod openapi_v2;
pub(crate) mod cache;
mod health;
pub(crate) mod metrics;
pub(crate) mod serve;
pub(crate) mod issuer;
