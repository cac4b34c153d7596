//! Room: `cargo steersman add`.

mod kind;
mod webhook;
mod version;

pub(crate) use self::kind::kind;
pub(crate) use self::version::version;
pub(crate) use self::webhook::webhook;
