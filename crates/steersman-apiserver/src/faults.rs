//! Room: what was asked of the server, and failures on demand.

mod record;
mod log;
mod plan;
mod watches;
mod handle;

pub use handle::{Answer, FaultGuard, Faults};
pub use log::RequestLog;
pub use record::{RequestRecord, Verb};

pub(crate) use watches::{WatchMode, WatchTap};
