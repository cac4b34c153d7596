//! Words: the state of a definition, as the operator reports it.

/// The state of one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrdStatus {
    /// The name of the definition, as in `websites.web.example.com`.
    pub name: String,
    /// The phase of the installation.
    pub phase: CrdPhase,
    /// The last problem, until it is solved.
    pub problem: Option<String>,
    /// The number of objects that this replica has migrated.
    pub migrated: u64,
}

/// A phase of a definition's installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrdPhase {
    /// The leader has not installed the definition yet.
    Pending,
    /// The definition on the server and that of the operator each accept values that the other does not. Nothing is
    /// written, and the controllers of the leader wait.
    Refused,
    /// The definition on the server is that of a later release, and accepts all that the operator's definition accepts.
    Kept,
    /// The server serves the definition.
    Installed,
    /// The server serves the definition, and its objects are being migrated to the stored version.
    Migrating,
}

impl CrdPhase {
    /// Returns whether the server serves a definition that the operator can work with.
    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Kept | Self::Installed | Self::Migrating)
    }
}
