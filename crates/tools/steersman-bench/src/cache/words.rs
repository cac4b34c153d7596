//! Words: the measured caches, and the roles and reports of the processes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::samples::Sample;

/// The start of the label of every figure that times a sync.
pub(crate) const START_TO_SYNCED: &str = "time from a cold start to a synced cache";

/// The measured cache: that of this workspace, with its defaults except for one, or kube-runtime's reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MeasuredCache {
    /// The cache with its defaults.
    Defaults,
    /// The cache with its defaults, over HTTP/1.1.
    Http1,
    /// The cache with its defaults, in JSON instead of protobuf.
    Json,
    /// The cache with a budget of this number of bytes; with 0, all objects are packed.
    Budget(usize),
    /// The cache without a limit of decoded objects.
    Decoded,
    /// The cache of metadata.
    Metadata,
    /// The cache with managedFields.
    Whole,
    /// The cache with a view as a struct of one field.
    Small,
    /// The cache with a view as JSON.
    Tree,
    /// The cache of about one object in three, which the server selects by a label.
    Selected,
    /// kube-runtime's reflector.
    KubeRuntime,
    /// kube-runtime's reflector without managedFields.
    KubeRuntimeBare,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SyncTask {
    pub(crate) kubeconfig: PathBuf,
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) of: Sample,
    pub(crate) objects: u64,
    pub(crate) by: MeasuredCache,
}

/// The task of a manager with many controllers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct LoadTask {
    pub(crate) by: MeasuredCache,
    pub(crate) controllers: u64,
    pub(crate) watch_list: bool,
    /// The number of objects per kind.
    pub(crate) objects: u64,
}

/// The task of an operator with constantly changing objects.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SteadyTask {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) objects: usize,
}

/// What a replica connects to, and how it shares the work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ShardTask {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) seed: u64,
    /// Whether the server filters lists and watches.
    pub(crate) on_server: bool,
}

/// How an operator is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observation {
    pub(crate) log: ObservedLog,
    /// Whether the debug page is served.
    pub(crate) has_page: bool,
    /// The share of exported traces; `None` without traces.
    pub(crate) traces: Option<f64>,
}

/// The log of an operator, of the level `info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ObservedLog {
    /// No log, and no other subscriber of spans.
    None,
    Json,
    Human,
}

/// The task of an operator with a log, a debug page or traces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ObservedOperator {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) objects: u64,
    pub(crate) observation: Observation,
    /// The address of the collector of traces.
    pub(crate) collector: String,
}

/// What the operator did in one part of a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InsideReport {
    pub(crate) per_second: f64,
    /// The processor time of the process for each reconcile.
    pub(crate) cpu_ns: f64,
    /// The resident memory at its end, in bytes.
    pub(crate) resident: f64,
}

/// The state of a replica.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShardReport {
    /// The number of objects in its cache.
    pub(crate) objects: u64,
    /// Whether its queue is empty.
    pub(crate) is_settled: bool,
    /// The processor time of the process, in seconds.
    pub(crate) cpu: f64,
    /// The resident memory, in bytes.
    pub(crate) resident: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ClientRole {
    /// Caches all objects of a kind, and reads them.
    Sync(SyncTask),
    /// Processes keys of a queue.
    Queue { keys: u64 },
    /// Reconciles all objects of a server once.
    Storm(SyncTask),
    /// Measures the time from changes to reconciles.
    Latency { by: MeasuredCache, rounds: usize },
    /// Creates an owned child for each object.
    Children { by: MeasuredCache, owners: u64 },
    /// Writes without and with a webhook.
    Admission { writes: u32 },
    /// Runs the ported operator, or the one before the port.
    Port {
        kubeconfig: PathBuf,
        documents: u64,
        /// Runs the operator before the port.
        is_peer: bool,
    },
    /// Waits for a deletion during an outage of the server of this number of seconds.
    Outage { by: MeasuredCache, away: u64 },
    /// Reads with unseen writes of other keys.
    Unseen { objects: u64 },
    /// Counts the requests of a manager, or of kube-runtime.
    Load(LoadTask),
    /// Runs an operator with constantly changing objects.
    Steady(SteadyTask),
    /// Runs one of several replicas that share the work.
    Shard(ShardTask),
    /// Runs an operator that is looked at.
    Inside(ObservedOperator),
    /// Runs the operator of explorations, on the server of the kubeconfig in the environment.
    Explored,
}

/// The figures of caching.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Synced {
    /// The time from before the connection until all objects are cached.
    pub(crate) seconds: f64,
    /// The processor time of the process for that and for one second after it, in seconds.
    pub(crate) cpu: f64,
    /// The resident memory at that time, in bytes.
    pub(crate) resident: u64,
    /// The peak of the resident memory until that time.
    pub(crate) peak: u64,
    /// The resident memory after each object was read once.
    pub(crate) read: u64,
    /// The size of one object's JSON from the server, in bytes; 0 if kube-runtime does not report it.
    pub(crate) bytes_each: u64,
    /// A repeated read of one key.
    pub(crate) hot_ns: f64,
    /// Reads of a thousand keys in turn.
    pub(crate) spread_ns: f64,
    /// Reads of a thousand keys in turn through the cache instead of a store handle; 0 except for `Decoded`.
    pub(crate) cache_ns: f64,
    /// Reads of a thousand keys in turn through a client; 0 except for `Decoded`.
    pub(crate) client_ns: f64,
    /// A read of ten objects by an index; 0 except for `Decoded`.
    pub(crate) index_ns: f64,
    /// A read of ten objects by an indexed label; 0 except for `Decoded`.
    pub(crate) label_ns: f64,
    /// The processor time of a list of all objects, in seconds; 0 if no list was made.
    pub(crate) list_cpu: f64,
}

/// The cost of a key in a queue, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queued {
    pub(crate) batch_ns: f64,
    pub(crate) single_ns: f64,
    pub(crate) concurrent_ns: f64,
}
