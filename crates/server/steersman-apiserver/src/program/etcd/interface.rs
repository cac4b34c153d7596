//! Words: the paths and headers between a kube-apiserver and an etcd of this program.

/// The path of the request by which a kube-apiserver attaches to an etcd. The body of the answer has no end: the
/// kube-apiserver is attached until the connection is closed.
pub(super) const ATTACH: &str = "/steersman/attach";

pub(super) const SNAPSHOT: &str = "/steersman/snapshot";

/// The path of the transactions after the snapshot, which an attached kube-apiserver reads and appends.
pub(super) const LOG: &str = "/steersman/log";

/// The header with the number by which the etcd knows the attached kube-apiserver.
pub(super) const ATTACHMENT: &str = "steersman-attachment";

/// The header with a description of the process that attaches, such as `process 7`. The etcd names this process when it
/// refuses another one.
pub(super) const HOLDER: &str = "steersman-holder";

/// The header of the answer to an attach request that says which failures a confirmed write survives (`Durability`).
pub(super) const DURABILITY: &str = "steersman-durability";

/// The header with the number of the first transaction of an append.
pub(super) const FIRST: &str = "steersman-first";

/// The header with the number of the last transaction of an append, or of a snapshot.
pub(super) const LAST: &str = "steersman-last";

/// The header, with any value, of an append that starts a new file of the log.
pub(super) const STARTS_FILE: &str = "steersman-starts-file";
