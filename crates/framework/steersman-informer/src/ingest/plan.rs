//! Machine: decides whether an arrived object gets a new entry or reuses the stored one, and when it is packed.

use steersman_api::{Head, Projection};

use crate::entry::RawEntry;

/// The number of waiting deltas from which live events are packed on arrival, to bound the unpacked JSON (PACK-6).
const MOST_UNPACKED: usize = 16;

/// The decision whether an arrived object gets a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IngestPlan {
    Create,
    /// The store has this version: the stored entry is used again (STORE-6), unless its JSON differs (STORE-10).
    Reuse,
    /// The stored entry is used again, and gets the arrived JSON if it has more of the object (VIEW-3).
    Complete,
}

impl IngestPlan {
    /// Compares the metadata `head` of an arrived object with the stored entry. `projection`: the part that arrived.
    pub(crate) fn of(stored: Option<&RawEntry>, head: &Head, projection: Projection) -> Self {
        match stored {
            Some(stored) if stored.is_of(head) => match projection {
                Projection::Metadata => Self::Reuse,
                Projection::Whole | Projection::EveryField => Self::Complete,
            },
            Some(_) | None => Self::Create,
        }
    }
}

/// Returns whether an entry is packed on arrival, instead of after the delivery of its event. `queued` returns the
/// number of deltas that wait for the store.
///
/// PACK-6: subscribers read a live event before it is packed, unless many deltas wait already.
pub(crate) fn packs_on_arrival(in_list: bool, queued: impl FnOnce() -> usize) -> bool {
    in_list || queued() >= MOST_UNPACKED
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::entry::Entry;

    fn map(name: &str, uid: &str, version: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.uid = Some(uid.to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        map
    }

    // STORE-6
    #[test]
    fn store_6_a_stored_version_that_arrives_again_is_not_held_twice() {
        use Projection::{Metadata, Whole};
        let stored: RawEntry = Entry::new(map("a", "u", "5")).cast();
        for (arrived, projection, expected) in [
            (map("a", "u", "5"), Metadata, IngestPlan::Reuse),
            (map("a", "u", "5"), Whole, IngestPlan::Complete),
            (map("a", "u", "6"), Whole, IngestPlan::Create),
            (map("a", "v", "5"), Whole, IngestPlan::Create),
            // Without a version, nothing tells that the object is the stored one.
            (map("a", "u", ""), Metadata, IngestPlan::Create),
        ] {
            let head = Head::of_meta(&arrived.metadata);
            assert_eq!(IngestPlan::of(Some(&stored), &head, projection), expected);
            assert_eq!(IngestPlan::of(None, &head, projection), IngestPlan::Create);
        }
    }

    // PACK-6
    #[test]
    fn pack_6_live_events_are_packed_on_arrival_only_behind_a_long_queue() {
        for (in_list, queued, expected) in [
            (true, 0, true),
            (true, MOST_UNPACKED, true),
            (false, 0, false),
            (false, MOST_UNPACKED - 1, false),
            (false, MOST_UNPACKED, true),
        ] {
            assert_eq!(packs_on_arrival(in_list, || queued), expected);
        }
    }
}
