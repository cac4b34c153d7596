//! Words: the content of a set.

use steersman_object::Kind;

use crate::inventory::{Children, OwnedKind};
use crate::owner::SetOwner;

/// The content of a set.
pub(crate) struct SetPlan {
    pub(crate) owner: SetOwner,
    /// The declared kinds.
    pub(crate) kinds: Vec<OwnedKind>,
    pub(crate) members: Children,
    /// For each member, the indexes of the members that it comes after.
    pub(crate) after: Vec<Vec<usize>>,
    /// The largest number of members that are processed at once.
    pub(crate) at_once: usize,
}

impl SetPlan {
    /// Returns whether a kind is declared, in any version.
    pub(crate) fn is_declared(&self, kind: &Kind) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|declared| declared.kind.gvk().same_group_kind(kind.gvk()))
    }
}
