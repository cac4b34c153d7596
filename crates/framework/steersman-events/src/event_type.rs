//! Words: the type of an event.

/// The type of an event: the two values that events.k8s.io/v1 allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information: the operator did what it should.
    Normal,
    /// Something is not as it should be, and a person may have to act.
    Warning,
}

impl EventType {
    /// Returns the text of the field `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
