//! Words: errors of the methods of an informer.
//!
//! Failed requests to the server are no errors of a method: the informer repeats them, and shows the problem in its
//! [`InformerState`](crate::InformerState).

use steersman_object::{Kind, ListOptions};
use thiserror::Error;

/// Why a method of an informer failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An index with this name exists already.
    #[error("{kind} already has an index named {name:?}: choose another name")]
    IndexExists {
        /// The kind of the informer's objects.
        kind: String,
        /// The name that another index has.
        name: String,
    },
    /// The name of an index is empty.
    #[error("an index of {kind} has no name: give it one to find objects by")]
    IndexWithoutName {
        /// The kind of the informer's objects.
        kind: String,
    },
    /// No index with this name was added for the Rust type of the read objects.
    #[error("{kind} has no index named {name:?} ({known}): add it with add_index")]
    NoSuchIndex {
        /// The kind of the informer's objects.
        kind: String,
        /// The name of an index in the read.
        name: String,
        /// The names of the existing indexes, as text.
        known: String,
    },
    /// A read from memory selects by fields, which only the API server can evaluate.
    #[error(
        "{kind} cannot be selected by fields in memory: select by labels or an index, or read live"
    )]
    FieldsNeedServer {
        /// The kind of the informer's objects.
        kind: String,
    },
    /// The informer stopped before its first list was complete.
    #[error("the informer of {kind} stopped before it was synced")]
    Stopped {
        /// The kind of the informer's objects.
        kind: String,
    },
}

impl Error {
    /// Refuses list options with a field selector, which only an API server can evaluate.
    pub(crate) fn refuse_fields(kind: &Kind, list_options: &ListOptions) -> Result<(), Self> {
        match list_options.selected_fields().is_everything() {
            true => Ok(()),
            false => Err(Self::FieldsNeedServer {
                kind: kind.to_string(),
            }),
        }
    }

    /// Returns whether an index with this name exists already.
    pub fn is_index_exists(&self) -> bool {
        matches!(self, Self::IndexExists { .. })
    }

    /// Returns whether no index has this name.
    pub fn is_no_such_index(&self) -> bool {
        matches!(self, Self::NoSuchIndex { .. })
    }

    /// Returns whether the informer stopped before its first list was complete.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }
}
