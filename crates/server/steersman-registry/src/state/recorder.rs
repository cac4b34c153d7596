//! Words: the numbers and flags by which a turn of the lock is compared with the previous one.

use serde::{Deserialize, Serialize};

/// The counters that a server continues after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counters {
    pub(super) random: u64,
    pub(super) addresses: u32,
    pub(super) node_ports: i64,
}

/// The state after the last transaction, by which a later turn of the lock finds out what it changed.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) counters: Counters,
    pub(super) forgotten: u64,
    /// Whether a token that snapshots include was registered since the last transaction.
    pub(crate) has_new_token: bool,
}
