//! Words: the change of one stored object.

use steersman_object::ObjectKey;

use crate::entry::{Entry, Untyped};

/// The change of one object, as delivered to the subscribers of an informer.
///
/// When an event is delivered, the store is at least as new as the event.
#[derive(Debug)]
pub enum Event<K> {
    /// The object appeared: it was created, matches the selectors now, or is in the initial list.
    Created {
        /// The object as it is now.
        new: Entry<K>,
        /// The source of the event: the initial list or a live change.
        origin: Origin,
    },
    /// The object changed, or a resync repeats it.
    Updated {
        /// The version that the subscriber received last.
        old: Entry<K>,
        /// The object after the change.
        new: Entry<K>,
        /// The source of the event: a live change or a resync.
        origin: Origin,
    },
    /// The object disappeared: it was deleted, or no longer matches the selectors.
    Deleted {
        /// The last known version of the object.
        last_known: Entry<K>,
        /// Whether `last_known` is the final version.
        certainty: Certainty,
    },
}

/// An event with objects that are not tied to a Rust type yet.
pub(crate) type RawEvent = Event<Untyped>;

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The object was there when the informer started or the subscriber joined.
    Initial,
    /// The object changed on the server.
    Live,
    /// Nothing changed: a resync repeats the object.
    Resync,
}

/// Whether the final version of a deleted object is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The server reported the delete; the last known version is the final one.
    Observed,
    /// The object was missing from a list, so the time of its deletion and its final version are unknown. client-go
    /// calls this `DeletedFinalStateUnknown`.
    FinalStateUnknown,
}

impl<K> Event<K> {
    /// Returns the event of an object that appeared. Tests of predicates and handlers may use it.
    pub fn created(new: Entry<K>, origin: Origin) -> Self {
        Self::Created { new, origin }
    }

    /// Returns the event of an object that changed.
    pub fn updated(old: Entry<K>, new: Entry<K>, origin: Origin) -> Self {
        Self::Updated { old, new, origin }
    }

    /// Returns the event of an object that disappeared.
    pub fn deleted(last_known: Entry<K>, certainty: Certainty) -> Self {
        Self::Deleted {
            last_known,
            certainty,
        }
    }

    /// Returns the object's key.
    pub fn key(&self) -> &ObjectKey {
        self.entry().key()
    }

    /// Returns the version before an update, or the last known version of a deleted object; `None` for a create.
    pub fn old(&self) -> Option<&Entry<K>> {
        match self {
            Self::Created { .. } => None,
            Self::Updated { old, .. } => Some(old),
            Self::Deleted { last_known, .. } => Some(last_known),
        }
    }

    /// Returns the current version; `None` for a delete.
    pub fn current(&self) -> Option<&Entry<K>> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } => Some(new),
            Self::Deleted { .. } => None,
        }
    }

    /// Returns the current version, or the last known version of a deleted object.
    pub fn entry(&self) -> &Entry<K> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { last_known, .. } => last_known,
        }
    }

    /// Returns the source of the event; a delete is always live.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Created { origin, .. } | Self::Updated { origin, .. } => *origin,
            Self::Deleted { .. } => Origin::Live,
        }
    }

    /// Returns whether the object appeared.
    pub fn is_create(&self) -> bool {
        matches!(self, Self::Created { .. })
    }

    /// Returns whether the object changed.
    pub fn is_update(&self) -> bool {
        matches!(self, Self::Updated { .. })
    }

    /// Returns whether the object disappeared.
    pub fn is_delete(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// Returns whether the object was deleted and its final version is unknown.
    pub fn final_state_unknown(&self) -> bool {
        let unknown = Certainty::FinalStateUnknown;
        matches!(self, Self::Deleted { certainty, .. } if *certainty == unknown)
    }
    /// Returns whether the event repeats an unchanged object.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new, .. } if new.is_unchanged_from(old))
    }

    /// Returns the same event with objects read as `T`. The bodies must have decoded as `T` (VIEW-1).
    pub(crate) fn cast<T>(&self) -> Event<T> {
        match self {
            Self::Created { new, origin } => Event::created(new.cast(), *origin),
            Self::Updated { old, new, origin } => Event::updated(old.cast(), new.cast(), *origin),
            Self::Deleted {
                last_known,
                certainty,
            } => Event::deleted(last_known.cast(), *certainty),
        }
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        self.cast()
    }
}
