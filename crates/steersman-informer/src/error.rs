//! Words: how using an informer can fail.
//!
//! What goes wrong between the informer and the server is not here: that is its
//! [`State`](crate::State), which recovers.

use steersman_object::{Kind, Selection};
use thiserror::Error;

/// A misuse of an informer, or its end.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An index of this name is there already.
    #[error("{kind} already has an index named {name:?}: choose another name")]
    IndexExists {
        /// The kind of the informer.
        kind: String,
        /// The name of the index.
        name: String,
    },
    /// The name of an index is empty.
    #[error("an index of {kind} has no name: give it one to find objects by")]
    IndexWithoutName {
        /// The kind of the informer.
        kind: String,
    },
    /// There is no index of this name.
    #[error("{kind} has no index named {name:?} ({known}): add it with add_index")]
    NoSuchIndex {
        /// The kind of the informer.
        kind: String,
        /// The name of the index.
        name: String,
        /// The names there are, for people.
        known: String,
    },
    /// A read selects by fields.
    #[error(
        "{kind} cannot be selected by fields in memory: select by labels or an index, or read live"
    )]
    FieldsNeedServer {
        /// The kind of the informer.
        kind: String,
    },
    /// The informer stopped before it had seen the initial set.
    #[error("the informer of {kind} stopped before it was synced")]
    Stopped {
        /// The kind of the informer.
        kind: String,
    },
}

impl Error {
    /// Refuses a selection that only an API server can answer.
    pub(crate) fn refuse_fields(kind: &Kind, selection: &Selection) -> Result<(), Self> {
        match selection.selected_fields().is_everything() {
            true => Ok(()),
            false => Err(Self::FieldsNeedServer {
                kind: kind.to_string(),
            }),
        }
    }

    /// An index of this name is there already.
    #[must_use]
    pub fn is_index_exists(&self) -> bool {
        matches!(self, Self::IndexExists { .. })
    }

    /// There is no index of this name.
    #[must_use]
    pub fn is_no_such_index(&self) -> bool {
        matches!(self, Self::NoSuchIndex { .. })
    }

    /// The informer stopped before it had seen the initial set.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }
}
