//! Room: admission policies and webhooks in compiled form, and flags that say whether the server has any of them.

pub(crate) mod presence;
pub(crate) mod policy;
pub(crate) mod validation;
pub(crate) mod mutation;
pub(crate) mod compiled;
