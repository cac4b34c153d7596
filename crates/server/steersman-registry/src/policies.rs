//! Room: compiled admission policies and webhooks, and whether any exist.

pub(crate) mod presence;
pub(crate) mod policy;
pub(crate) mod validation;
pub(crate) mod mutation;
pub(crate) mod compiled;
