//! Words: the progress of an informer, and the object that it stores under one key.

use steersman_object::ResourceVersion;

/// The progress of an informer and its object under one key, at one moment: see
/// [`UntypedInformer::key_state`](crate::UntypedInformer::key_state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyState {
    /// The version up to which the informer has applied all events, bookmarks and lists. Unset before the first list.
    pub applied: ResourceVersion,
    /// The stored object, if there is one.
    pub stored: Option<Identity>,
}

/// Identifies a stored object and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The uid, which distinguishes the object from earlier and later objects with the same key.
    pub uid: String,
    /// The object's resource version.
    pub version: ResourceVersion,
    /// Whether the object has a deletion timestamp.
    pub is_deleting: bool,
}
