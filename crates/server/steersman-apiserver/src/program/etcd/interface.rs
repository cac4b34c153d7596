//! Words: the paths and headers between a kube-apiserver and an etcd of this program.

/// The path of the request that attaches. Its answer ends with the connection.
pub(super) const ATTACH: &str = "/steersman/attach";

pub(super) const SNAPSHOT: &str = "/steersman/snapshot";

/// The path of the transactions after the snapshot, which an attached kube-apiserver reads and appends.
pub(super) const LOG: &str = "/steersman/log";

/// The header with the number of an attachment.
pub(super) const ATTACHMENT: &str = "steersman-attachment";

/// The header that describes the process that attaches.
pub(super) const HOLDER: &str = "steersman-holder";

/// The header with the durability of the etcd, in the answer to an attach request.
pub(super) const DURABILITY: &str = "steersman-durability";

/// The header with the number of the first transaction of an append.
pub(super) const FIRST: &str = "steersman-first";

/// The header with the number of the last transaction of an append, or of a snapshot.
pub(super) const LAST: &str = "steersman-last";

/// The header of an append that starts a file, with any value.
pub(super) const STARTS_FILE: &str = "steersman-starts-file";
