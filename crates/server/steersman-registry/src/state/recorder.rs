//! Words: `Recorder`, the counters after the last transaction. A turn that changes nothing makes no transaction.

use serde::{Deserialize, Serialize};

/// The counters from which uids, Service addresses and node ports are assigned. Snapshots and the log hold them, so
/// that a restarted server assigns nothing twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counters {
    pub(super) random: u64,
    pub(super) addresses: u32,
    pub(super) node_ports: i64,
}

/// The state after the last transaction (one turn of the registry's lock). A turn that changes neither this state nor
/// an object is no transaction, and a transaction has `forgotten` only if it differs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) counters: Counters,
    pub(super) forgotten: u64,
    /// Whether `add_token` has registered a token since the last transaction; then the next one contains all tokens.
    pub(crate) has_new_token: bool,
}
