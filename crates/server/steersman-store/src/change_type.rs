//! Words: `ChangeType`, the type of the watch event that a revision causes.

/// The type of the watch event for one revision, that is one write of one object.
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
    /// Returns the `type` in the watch event, for instance `ADDED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
