//! Room: `cargo steersman add`.

mod kind;

pub(crate) use self::kind::kind;
