//! Words: the state of a definition, as the operator shows it.

/// The state of one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrdStatus {
    /// The name of the definition, as in `websites.web.example.com`.
    pub name: String,
    /// How far the definition is.
    pub phase: CrdPhase,
    /// The last problem, until it is solved.
    pub problem: Option<String>,
    /// The number of objects that this replica has stored in the present version.
    pub migrated: u64,
}

/// How far a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrdPhase {
    /// The leader has not installed the definition yet.
    Pending,
    /// The definition on the server accepts something that the operator's definition does not, and the operator's
    /// definition something that the server's does not: nothing is written, and the controllers of the leader wait.
    Refused,
    /// The definition on the server is that of a later release, which accepts all that the operator's definition
    /// accepts.
    Kept,
    /// The server serves the definition.
    Installed,
    /// The server serves the definition, and its objects are being stored in the present version.
    Migrating,
}

impl CrdPhase {
    /// Returns whether the server serves a definition with which the operator can work.
    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Kept | Self::Installed | Self::Migrating)
    }
}
