//! Connections, verbs and watches against the embedded api-server.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

mod connecting;
mod credentials;
mod discovery;
mod encodings;
mod links;
mod metrics;
mod plugins;
mod proxies;
mod verbs;
mod watching;
mod wire;
