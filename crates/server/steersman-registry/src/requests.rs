//! Room: the parts of a request: its resource, options, selectors, field manager and body.

pub(crate) mod options;
pub(crate) mod rng;
pub(crate) mod metadata;
pub(crate) mod claimed_names;
pub(crate) mod catalogue;
pub(crate) mod select;
pub(crate) mod manager;
pub(crate) mod intake;
pub(crate) mod request_kinds;
pub(crate) mod subresource_fields;
