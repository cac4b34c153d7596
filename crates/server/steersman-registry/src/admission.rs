//! Room: admission of a write by policies and webhooks.

pub(crate) mod attributes;
pub(crate) mod attempt;
mod matching;
mod validating_policies;
mod policy_parameters;
mod mutating_policies;
pub(crate) mod mutation_progress;
mod webhooks;
