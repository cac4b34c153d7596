//! Room: the parts of a request, from its path to its body.

pub(crate) mod headers;
pub(crate) mod negotiate;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod deadline;
pub(crate) mod request_info;
pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod decode;
pub(crate) mod receive;
pub(crate) mod ignored_fields;
