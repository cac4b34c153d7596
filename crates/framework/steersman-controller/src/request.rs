//! Words: requests, the inputs of reconciles.

use std::any::Any;
use std::sync::Arc;

use derive_more::{Display, From};
use steersman_object::ObjectKey;
use steersman_workqueue::Key;

/// The default request: reconcile one object of the primary kind.
///
/// A request contains only the key and nothing of the event that caused it. So several events become one
/// request, and a reconciler reads the current state.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, Display, From)]
#[display("{key}")]
#[debug("{key:?}")]
#[non_exhaustive]
pub struct Request {
    /// The key of the object to reconcile.
    pub key: ObjectKey,
}

/// The name of a cluster, unique among the clusters of a manager.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, Display, From)]
#[debug("{_0}")]
#[from(&str, String)]
pub struct ClusterName(Arc<str>);

/// The request to reconcile one object of one cluster.
///
/// `Debug` and `Display` print `cluster/namespace/name`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, Display)]
#[display("{cluster}/{key}")]
#[debug("{cluster}/{key}")]
#[non_exhaustive]
pub struct ClusterRequest {
    /// The cluster of the object.
    pub cluster: ClusterName,
    /// The key of the object.
    pub key: ObjectKey,
}

/// The bounds of a type of requests. Every type that meets the bounds implements the trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a request",
    note = "derive `Clone`, `Debug`, `PartialEq`, `Eq` and `Hash` for it; equal requests are one request"
)]
pub trait RequestKey: Key {}

impl<T: Key> RequestKey for T {}

/// Returns the cluster and the key of the requested object; `None` for a request of the user's own type.
pub(crate) fn requested_object<R: RequestKey>(
    request: &R,
) -> Option<(Option<&ClusterName>, &ObjectKey)> {
    let request: &dyn Any = request;
    if let Some(request) = request.downcast_ref::<Request>() {
        return Some((None, &request.key));
    }
    let request = request.downcast_ref::<ClusterRequest>()?;
    Some((Some(&request.cluster), &request.key))
}

impl Request {
    /// Makes the request for the object with this key.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self { key }
    }
}

// === impl ClusterName ===

impl ClusterName {
    pub(crate) const LOCAL: &'static str = "local";

    /// Returns the name of the manager's own cluster, `local`.
    #[must_use]
    pub fn local() -> Self {
        Self::from(Self::LOCAL)
    }

    /// Returns the name of the cluster as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl ClusterRequest ===

impl ClusterRequest {
    /// Makes the request for the object with this key in a cluster.
    pub fn new(cluster: impl Into<ClusterName>, key: ObjectKey) -> Self {
        Self {
            cluster: cluster.into(),
            key,
        }
    }
}
