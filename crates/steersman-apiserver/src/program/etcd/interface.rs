//! Words: the paths and headers between a kube-apiserver and an etcd of this program.

/// The path of the request that attaches a kube-apiserver. Its answer does not end before the
/// connection.
pub(super) const ATTACH: &str = "/steersman/attach";

/// The path of the snapshot, which an attached kube-apiserver reads and writes.
pub(super) const SNAPSHOT: &str = "/steersman/snapshot";

/// The header with the number of an attachment, in the answer to an attach request and in requests
/// for the snapshot.
pub(super) const ATTACHMENT: &str = "steersman-attachment";

/// The header that describes the process that attaches.
pub(super) const HOLDER: &str = "steersman-holder";
