//! Room: admission, which changes, checks or refuses a write by policies, webhooks and plugins before it is stored.

pub(crate) mod attributes;
pub(crate) mod attempt;
mod matching;
mod validating_policies;
mod policy_parameters;
mod mutating_policies;
pub(crate) mod mutation_progress;
mod webhooks;
