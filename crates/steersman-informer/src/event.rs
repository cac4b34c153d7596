//! Words: what happened to one stored object.

use steersman_object::ObjectKey;

use crate::entry::{Entry, Untyped};

/// What happened to one object, as the subscribers of an informer see it.
///
/// When an event is delivered the store is at least as new as the event.
#[derive(Debug)]
pub enum Event<K> {
    /// An object appeared: created, now matching the selectors, or in the initial set.
    Created {
        /// The object.
        new: Entry<K>,
        /// How it came to be seen.
        origin: Origin,
    },
    /// An object changed, or a resync repeats it.
    Updated {
        /// What the subscriber last took of it.
        old: Entry<K>,
        /// What is now.
        new: Entry<K>,
        /// How it came to be seen.
        origin: Origin,
    },
    /// An object disappeared: deleted, or no longer matching the selectors.
    Deleted {
        /// Its last state that is known.
        last_known: Entry<K>,
        /// Whether that is its final state.
        certainty: Certainty,
    },
}

/// An event as it is handed on: of no type.
pub(crate) type RawEvent = Event<Untyped>;

/// How a change came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// It was there when the informer started or the subscriber joined.
    Initial,
    /// It happened since.
    Live,
    /// Nothing happened: a resync repeats what is there.
    Resync,
}

/// How a delete came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The server reported it; the last known state is the final one.
    Observed,
    /// It was missing when the informer looked again: when it went, and what it was by then, is
    /// unknown. client-go calls this `DeletedFinalStateUnknown`.
    FinalStateUnknown,
}

impl<K> Event<K> {
    /// An object that appeared; for tests of predicates and handlers, too.
    #[must_use]
    pub fn created(new: Entry<K>, origin: Origin) -> Self {
        Self::Created { new, origin }
    }

    /// An object that changed.
    #[must_use]
    pub fn updated(old: Entry<K>, new: Entry<K>, origin: Origin) -> Self {
        Self::Updated { old, new, origin }
    }

    /// An object that disappeared.
    #[must_use]
    pub fn deleted(last_known: Entry<K>, certainty: Certainty) -> Self {
        Self::Deleted {
            last_known,
            certainty,
        }
    }

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.entry().key()
    }

    /// What was before: of an update and of a delete.
    #[must_use]
    pub fn old(&self) -> Option<&Entry<K>> {
        match self {
            Self::Created { .. } => None,
            Self::Updated { old, .. } => Some(old),
            Self::Deleted { last_known, .. } => Some(last_known),
        }
    }

    /// What is now; `None` of a delete.
    #[must_use]
    pub fn current(&self) -> Option<&Entry<K>> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } => Some(new),
            Self::Deleted { .. } => None,
        }
    }

    /// The object as it is, or as it was last known.
    #[must_use]
    pub fn entry(&self) -> &Entry<K> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { last_known, .. } => last_known,
        }
    }

    /// How the change came to be seen; a delete is always live.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Created { origin, .. } | Self::Updated { origin, .. } => *origin,
            Self::Deleted { .. } => Origin::Live,
        }
    }

    /// Whether an object appeared.
    #[must_use]
    pub fn is_create(&self) -> bool {
        matches!(self, Self::Created { .. })
    }

    /// Whether an object changed.
    #[must_use]
    pub fn is_update(&self) -> bool {
        matches!(self, Self::Updated { .. })
    }

    /// Whether an object disappeared.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// Of a delete: whether the object's final state is unknown.
    #[must_use]
    pub fn final_state_unknown(&self) -> bool {
        let unknown = Certainty::FinalStateUnknown;
        matches!(self, Self::Deleted { certainty, .. } if *certainty == unknown)
    }
}

impl<K> Event<K> {
    /// Whether nothing happened: the old object is the new one.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new, .. } if old.is_same_version_as(new))
    }

    /// The same event, of entries looked at as another type: their bodies have to decode as it
    /// (VIEW-1).
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
