//! Words: the part of the state that a transaction is compared with.

use serde::{Deserialize, Serialize};

/// The numbers that a server continues after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counters {
    pub(super) random: u64,
    pub(super) addresses: u32,
    pub(super) node_ports: i64,
}

/// The part of the state that is compared to find out whether a turn of the lock changed it.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) counters: Counters,
    pub(super) forgotten: u64,
    /// Whether a kept token was registered since the last transaction.
    pub(crate) has_new_token: bool,
}
