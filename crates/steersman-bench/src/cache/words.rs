//! Words: who is measured and how, and what the processes of a measurement report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::samples::Sample;

/// Who caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Who {
    /// The cache with its defaults.
    Defaults,
    /// The cache with its defaults, over HTTP/1.1.
    Http1,
    /// The cache, which keeps nothing decoded.
    Packed,
    /// The cache, which keeps 16 MiB decoded.
    Little,
    /// The cache, which keeps 256 MiB decoded.
    Much,
    /// The cache, which keeps everything decoded.
    Decoded,
    /// The cache, of metadata alone.
    Metadata,
    /// The cache, which keeps managedFields.
    Whole,
    /// The cache, looked at as a struct of one field.
    Small,
    /// The cache, looked at as JSON.
    Tree,
    /// The cache of one in about three, which the server selects by a label.
    Selected,
    /// kube-runtime's reflector.
    KubeRuntime,
    /// The same, which is told to drop managedFields.
    KubeRuntimeBare,
}

/// What a process is to cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) kubeconfig: PathBuf,
    /// All namespaces where it is none.
    pub(crate) namespace: Option<String>,
    pub(crate) of: Sample,
    pub(crate) objects: u64,
    pub(crate) by: Who,
}

/// What caching took.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Synced {
    /// From before the connection until everything is there.
    pub(crate) seconds: f64,
    /// Processor time of the process for that, in seconds; with what it does in the second after.
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
    /// The same through a client.
    pub(crate) client_ns: f64,
    /// Ten objects by an index; 0 where there is none.
    pub(crate) index_ns: f64,
    /// Ten objects by a label that is indexed; 0 where there is none.
    pub(crate) label_ns: f64,
    /// Processor time of a list of everything, in seconds; 0 where none was made.
    pub(crate) list_cpu: f64,
}

/// What a key costs on its way through a queue, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queued {
    pub(crate) batch_ns: f64,
    pub(crate) single_ns: f64,
    pub(crate) concurrent_ns: f64,
}
