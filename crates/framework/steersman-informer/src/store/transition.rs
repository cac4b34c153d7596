//! Machine: compares an arrived object with the stored one, and names the change.

use steersman_api::{Decoded, Malformed};

use crate::delta::DeltaItem;
use crate::entry::RawEntry;
use crate::event::Origin;

/// The change of the object under one key.
#[derive(Debug)]
pub(crate) enum Transition {
    /// The key was free, and now an object is stored under it.
    Appeared { new: RawEntry, origin: Origin },
    /// The stored object has a new version, or other JSON of the same version (STORE-10).
    Changed { old: RawEntry, new: RawEntry },
    /// Another object, with another uid, has the key. The deletion of the old object was missed.
    Recreated { old: RawEntry, new: RawEntry },
    /// The stored object was deleted. `last` is its final state, if the server sent it and it decodes.
    Gone {
        stored: RawEntry,
        last: Option<RawEntry>,
    },
    /// The stored object left the store because its slot was lost (SHARD-4). It may exist on the server.
    Released { stored: RawEntry },
    /// The stored version arrived again. `arrived` may hold more of the object than `stored`.
    Same { stored: RawEntry, arrived: RawEntry },
    /// The new version does not decode, so the stored version stays readable.
    Kept { stored: RawEntry },
    /// The object does not decode, and no object was stored under its key.
    Nothing,
}

impl Transition {
    /// Compares the stored object of a key with the object that arrived for this key. `origin` is the origin of an
    /// object that the store does not have.
    pub(crate) fn of(stored: Option<&RawEntry>, arrived: &DeltaItem, origin: Origin) -> Self {
        match (stored, arrived) {
            (None, Decoded::Good(new)) => Self::Appeared {
                new: new.clone(),
                origin,
            },
            (Some(stored), Decoded::Good(new)) => {
                let (stored, new) = (stored.clone(), new.clone());
                if new.is_unchanged_from(&stored) {
                    Self::Same {
                        stored,
                        arrived: new,
                    }
                } else if new.is_same_as(&stored) {
                    Self::Changed { old: stored, new }
                } else {
                    Self::Recreated { old: stored, new }
                }
            }
            (Some(stored), Decoded::Malformed(malformed)) if is_of(malformed, stored) => {
                Self::Kept {
                    stored: stored.clone(),
                }
            }
            (Some(stored), Decoded::Malformed(_)) => Self::missed(stored.clone()),
            (None, Decoded::Malformed(_)) => Self::Nothing,
        }
    }

    /// Returns the deletion of an object with an unknown final state.
    pub(crate) fn missed(stored: RawEntry) -> Self {
        Self::Gone { stored, last: None }
    }

    /// Returns the entry that the store holds from now on; `None` if it does not change.
    pub(crate) fn new_entry(&self) -> Option<&RawEntry> {
        match self {
            Self::Appeared { new, .. }
            | Self::Changed { new, .. }
            | Self::Recreated { new, .. } => Some(new),
            Self::Gone { .. }
            | Self::Released { .. }
            | Self::Same { .. }
            | Self::Kept { .. }
            | Self::Nothing => None,
        }
    }
}

/// Returns whether a malformed object is the stored object. Without a readable uid it counts as the stored object.
fn is_of(malformed: &Malformed, stored: &RawEntry) -> bool {
    malformed.uid.is_empty() || *stored.uid() == *malformed.uid
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_object::{ObjectKey, ResourceVersion};

    use super::*;
    use crate::entry::Entry;

    fn entry(uid: &str, version: &str) -> RawEntry {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.metadata.uid = Some(uid.to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Entry::new(map).cast()
    }

    fn malformed(uid: &str) -> DeltaItem {
        let (key, version) = (ObjectKey::cluster_scoped("a"), ResourceVersion::new("9"));
        Malformed::new(key, uid, version, "odd").into()
    }

    fn name(transition: &Transition) -> &'static str {
        match transition {
            Transition::Appeared { .. } => "appeared",
            Transition::Changed { .. } => "changed",
            Transition::Recreated { .. } => "recreated",
            Transition::Gone { last: None, .. } => "gone",
            Transition::Gone { last: Some(_), .. } => "gone with a last state",
            Transition::Released { .. } => "released",
            Transition::Same { .. } => "same",
            Transition::Kept { .. } => "kept",
            Transition::Nothing => "nothing",
        }
    }

    // STORE-3, STORE-4
    #[test]
    fn each_pair_of_stored_and_arrived_object_is_one_transition() {
        let stored = entry("u1", "5");
        let good = |uid, version| Decoded::Good(entry(uid, version));
        for (is_stored, arrived, expected, is_new) in [
            (false, good("u1", "5"), "appeared", true),
            (false, malformed("u1"), "nothing", false),
            (true, good("u1", "5"), "same", false),
            (true, good("u1", "6"), "changed", true),
            (true, good("u2", "6"), "recreated", true),
            (true, good("u2", "5"), "recreated", true),
            (true, malformed("u1"), "kept", false),
            (true, malformed(""), "kept", false),
            (true, malformed("u2"), "gone", false),
        ] {
            let stored = is_stored.then_some(&stored);
            let transition = Transition::of(stored, &arrived, Origin::Live);
            assert_eq!(name(&transition), expected, "{stored:?} {arrived:?}");
            assert_eq!(transition.new_entry().is_some(), is_new, "{expected}");
        }
    }
}
