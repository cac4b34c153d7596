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

impl KeyState {
    /// Returns the state of one key of an informer that has applied all changes up to the version `applied`.
    /// For tests of `steersman-client`.
    #[doc(hidden)]
    pub fn new(applied: ResourceVersion, stored: Option<Identity>) -> Self {
        Self { applied, stored }
    }

    /// Returns whether the informer has reached a version of the object: all changes up to it are applied, or the
    /// stored object has this version or a later one.
    pub fn has_reached(&self, version: &ResourceVersion) -> bool {
        let stored = self.stored.as_ref();
        self.applied.is_at_least(version) || stored.is_some_and(|s| s.version.is_at_least(version))
    }
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

impl Identity {
    /// Returns the identity of a stored object. For tests of `steersman-client`.
    #[doc(hidden)]
    pub fn new(uid: impl Into<String>, version: ResourceVersion, is_deleting: bool) -> Self {
        let uid = uid.into();
        Self {
            uid,
            version,
            is_deleting,
        }
    }
}
