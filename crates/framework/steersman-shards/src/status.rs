//! Words: the state of a membership, for health checks and people.

use steersman_object::SlotSet;

/// The state of this replica in its group, as its requests last showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The name of the group, which is that of its Lease.
    pub group: String,
    /// The uid of the Lease of the group; `None` before it was listed.
    pub group_uid: Option<String>,
    /// The name of this member, which is that of its Lease.
    pub member: String,
    /// The members that can own slots, in order; the first one assigns.
    pub members: Vec<String>,
    /// The generation of the assignment; 0 before the first one.
    pub generation: u64,
    /// The [division](steersman_object::ShardBy::division) of this replica.
    pub division: String,
    /// The division of the group, if it is another one: this replica owns no slot until no member has that division.
    pub other_division: Option<String>,
    /// The slots that this replica owns.
    pub owned: SlotSet,
    /// The slots that the assignment gives to this replica, and that former owners may still work on.
    pub awaited: SlotSet,
    /// The former owners of the awaited slots.
    pub waits_for: Vec<String>,
    /// Whether the Lease of this replica is renewed in time, so that it may work.
    pub is_renewed: bool,
    /// The error of a request that fails; `None` if each kind of request succeeded last.
    pub last_error: Option<String>,
}

impl ShardStatus {
    /// Returns whether two states differ at most in the last error.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let plain = |status: &Self| Self {
            last_error: None,
            ..status.clone()
        };
        plain(self) == plain(other)
    }
}
