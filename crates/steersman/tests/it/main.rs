//! The facade as its users see it: a whole operator that imports one crate.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod operator;
mod derive;
mod metrics;
