//! The facade from the outside: operators that import this crate alone.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod operator;
mod compile;
mod derive;
mod metrics;
mod operator_webhooks;
mod versioned;
mod written;
mod any_server;
