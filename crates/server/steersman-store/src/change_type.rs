//! Words: the type of the watch event of a revision.

/// The type of the watch event of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    /// The object did not exist before.
    Added,
    /// The object existed before.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl ChangeType {
    /// Returns the type of the event, for instance `ADDED`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
