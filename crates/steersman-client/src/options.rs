//! Words: how a client signs its writes, and when a difference insists on a version.

use steersman_api::{PatchOptions, WriteOptions};

/// How a [`Client`](crate::Client) writes.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientOptions {
    pub(crate) field_manager: Option<String>,
    pub(crate) lock: Lock,
    pub(crate) attempts: u32,
}

/// Whether a difference that is sent names the version it was computed from.
///
/// The server refuses such a patch (conflict) when the object has changed since; the client then reads
/// it live and computes the difference anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lock {
    /// Where the patch sets or removes a list, because a merge patch has no smaller unit: what others
    /// added to it meanwhile would be lost. And where it is one of a status, because the server does not
    /// tell custom resources of one name apart by the uid there.
    #[default]
    Lists,
    /// Always.
    Always,
    /// Never: the last writer of a field, or of a whole list, wins.
    Never,
}

impl ClientOptions {
    /// The server's default field manager, [`Lock::Lists`], five attempts.
    pub fn new() -> Self {
        Self {
            field_manager: None,
            lock: Lock::default(),
            attempts: 5,
        }
    }

    /// The name under which the server notes who set which field (`fieldManager`).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// When differences insist on the version they were computed from.
    pub fn lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// How often a change is tried when the object keeps changing; at least once. Five by default.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }
}

impl ClientOptions {
    /// What creates and updates carry.
    pub(crate) fn write(&self) -> WriteOptions {
        match &self.field_manager {
            Some(name) => WriteOptions::new().field_manager(name),
            None => WriteOptions::new(),
        }
    }

    /// What patches carry.
    pub(crate) fn patch(&self) -> PatchOptions {
        match &self.field_manager {
            Some(name) => PatchOptions::new().field_manager(name),
            None => PatchOptions::new(),
        }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}
