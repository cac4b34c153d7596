//! Room: admission policies and webhooks in compiled form, and the knowledge whether the server has any.

pub(crate) mod presence;
pub(crate) mod policy;
pub(crate) mod validation;
pub(crate) mod mutation;
pub(crate) mod compiled;
