//! Words: the content of a set.

use steersman_object::Kind;

use crate::inventory::{Children, OwnedKind};
use crate::owner::SetOwner;

pub(crate) struct SetPlan {
    pub(crate) owner: SetOwner,
    pub(crate) kinds: Vec<OwnedKind>,
    pub(crate) members: Children,
    /// For each child, the indexes of the children that it comes after.
    pub(crate) after: Vec<Vec<usize>>,
    /// The maximal number of children that are processed at once.
    pub(crate) at_once: usize,
}

impl SetPlan {
    pub(crate) fn is_declared(&self, kind: &Kind) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|declared| declared.kind.gvk().same_group_kind(kind.gvk()))
    }
}
