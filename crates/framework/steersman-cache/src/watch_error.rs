//! Words: the argument of the hook for failed requests.

use std::sync::Arc;

use steersman_informer::Reason;
use steersman_object::Kind;

/// A failed list or watch of an informer; see [`CacheOptions::on_watch_error`](crate::CacheOptions::on_watch_error). A
/// watch that ends right after its start ([`Reason::ShortWatch`]) or is silent for too long ([`Reason::Silent`]) is a
/// failure. A watch that ends after events or a normal duration, or because its connection breaks, is resumed and is no
/// failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchError {
    /// The kind that the informer caches.
    pub kind: Kind,
    /// The namespace of the informer; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    /// The reason of the failure, as a value that programs can match.
    pub reason: Reason,
    /// The server's message or a description of the failure, without the kind.
    pub message: String,
    /// The number of failures since the last success, from 1.
    pub attempt: u32,
}

/// The hook for failed requests.
pub(crate) type OnWatchError = Arc<dyn Fn(&WatchError) + Send + Sync>;
