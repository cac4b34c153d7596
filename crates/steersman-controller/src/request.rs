//! Words: what a reconciler is asked for.

use std::fmt;

use steersman_object::ObjectKey;
use steersman_workqueue::Key;

/// The ordinary request: bring one object of the primary kind to what it should be.
///
/// It carries the key and nothing of the event that caused it, so that several events collapse into
/// one request, and so that a reconciler reads what is, not what was.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Request {
    /// The object's key.
    pub key: ObjectKey,
}

/// What a request type of one's own must be able to do; implemented for every type that can.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a request",
    note = "derive `Clone`, `Debug`, `PartialEq`, `Eq` and `Hash` for it; equal requests are one request"
)]
pub trait RequestKey: Key {}

impl<T: Key> RequestKey for T {}

impl Request {
    /// The request for the object of this key.
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
