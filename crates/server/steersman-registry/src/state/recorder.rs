//! Words: what is remembered of the last transaction, to find out what has changed since.

use serde::{Deserialize, Serialize};

/// Counters that go on after a restart, so that no uid, address or port is assigned twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counters {
    pub(super) random: u64,
    pub(super) addresses: u32,
    pub(super) node_ports: i64,
}

/// The state after the last transaction (one turn of the registry's lock), to find out what the next one changed.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) counters: Counters,
    pub(super) forgotten: u64,
    /// Whether a token that must be in snapshots was registered since the last transaction.
    pub(crate) has_new_token: bool,
}
