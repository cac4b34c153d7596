//! Room: kinds of admission: configurations of webhooks, and policies.

pub(crate) mod webhooks;
pub(crate) mod policies;
