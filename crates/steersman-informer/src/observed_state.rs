//! Words: how far an informer has come, and what it has of one object.

use steersman_object::ResourceVersion;

/// What an informer knows at one moment, of one object: see [`Mirror::observed_state`](crate::Mirror::observed_state).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedState {
    /// The version up to which everything the server said was applied: by events, bookmarks and
    /// lists. Unset before the first list.
    pub applied: ResourceVersion,
    /// The object, where it is stored.
    pub stored: Option<Identity>,
}

/// Which object has a name, at which version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub version: ResourceVersion,
    /// Whether it carries a deletion timestamp.
    pub is_deleting: bool,
}
