//! Room: kinds that decide which requests are accepted: RBAC, flow control, certificates and APIServices.

pub(crate) mod rbac;
pub(crate) mod flow;
pub mod signing_request;
pub(crate) mod certificates;
