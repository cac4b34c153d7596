//! Room: the parts of a response, from an object to the bytes of a body.

pub(crate) mod list;
pub(crate) mod protobuf;
pub(crate) mod events;
pub(crate) mod reply;
pub(crate) mod shape;
pub(crate) mod gzip;
pub(crate) mod body;
pub(crate) mod faulty_body;
