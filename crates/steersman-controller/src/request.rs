//! Words: requests: what a reconciler is called for.

use std::fmt;

use steersman_object::ObjectKey;
use steersman_workqueue::Key;

/// The ordinary request: to reconcile one object of the primary kind.
///
/// It carries the key and nothing of the event that caused it. So several events collapse into one
/// request, and a reconciler reads the present state.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Request {
    /// The object's key.
    pub key: ObjectKey,
}

/// The bounds of a request type; implemented for every type that meets them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a request",
    note = "derive `Clone`, `Debug`, `PartialEq`, `Eq` and `Hash` for it; equal requests are one request"
)]
pub trait RequestKey: Key {}

impl<T: Key> RequestKey for T {}

impl Request {
    /// Makes the request for the object of this key.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self { key }
    }
}

impl From<ObjectKey> for Request {
    fn from(key: ObjectKey) -> Self {
        Self { key }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}
