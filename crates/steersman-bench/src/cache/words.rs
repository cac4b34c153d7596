//! Words: who is measured, and what the processes of a measurement report.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Who caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// The cache with its defaults.
    Steersman,
    /// kube-runtime's reflector.
    KubeRuntime,
    /// The same, which is told to drop managedFields.
    KubeRuntimeBare,
}

/// What caching took.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Synced {
    /// From before the connection until everything is there.
    pub(crate) seconds: f64,
    /// Processor time of the process until then, in seconds.
    pub(crate) cpu: f64,
    /// Resident memory then, in bytes.
    pub(crate) resident: u64,
    /// Its peak until then.
    pub(crate) peak: u64,
    /// Resident memory after each object was read once.
    pub(crate) read: u64,
    /// The JSON of one object as the server sends it, in bytes; 0 where the peer does not know.
    pub(crate) bytes_each: u64,
    /// A read of one key again and again.
    pub(crate) hot_ns: f64,
    /// Reads of a thousand keys in turn.
    pub(crate) spread_ns: f64,
    /// The same through the cache rather than a handle of one store; 0 where there is none.
    pub(crate) cache_ns: f64,
    /// Ten objects by an index; 0 where there is none.
    pub(crate) index_ns: f64,
}

/// What a key costs on its way through a queue, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queued {
    pub(crate) batch_ns: f64,
    pub(crate) single_ns: f64,
    pub(crate) concurrent_ns: f64,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Steersman => "steersman",
            Self::KubeRuntime => "kube-runtime",
            Self::KubeRuntimeBare => "kube-runtime-bare",
        }
    }
}
