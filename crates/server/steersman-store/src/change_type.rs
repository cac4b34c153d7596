//! Words: the type of the watch event of a revision.

/// The type of the watch event of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    /// The revision created the object.
    Added,
    /// The revision changed an existing object.
    Modified,
    /// The revision deleted the object.
    Deleted,
}

impl ChangeType {
    /// Returns the type of the event, for instance `ADDED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
