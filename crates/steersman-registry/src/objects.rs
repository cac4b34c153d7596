//! Room: functions on single objects: versions, scales, managed fields, addresses of Services.

pub(crate) mod scale;
pub(crate) mod managed;
mod convert;
pub(crate) mod definitions;
mod service_address;
