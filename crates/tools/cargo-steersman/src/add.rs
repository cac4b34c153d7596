//! Room: `cargo steersman add`, which adds kinds, controllers, versions and webhooks.

mod built_in;
mod external;
mod controller;
mod kind;
mod webhook;
mod version_edits;
mod version;

pub(crate) use self::controller::controller;
pub(crate) use self::external::EXTERNAL;
pub(crate) use self::kind::kind;
pub(crate) use self::version::version;
pub(crate) use self::webhook::webhook;
