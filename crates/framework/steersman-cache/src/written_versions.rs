//! Handle: the minimum resource versions of first lists, so that these lists include the writes of this process.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_object::{Gvk, ResourceVersion};

/// The newest resource version of each kind that this process wrote, for the first lists of informers (RYOW-10).
#[derive(Debug, Default)]
pub(crate) struct WrittenVersions {
    /// The newest written version of each kind; unset if the versions cannot be ordered, so that the first list must
    /// read the newest state.
    newest: Mutex<HashMap<Gvk, ResourceVersion>>,
}

impl WrittenVersions {
    /// Records the version of a write of a kind, so that the first list of an informer that starts later includes the
    /// write. If the version is unset or cannot be ordered, this list reads the newest state.
    pub(crate) fn raise(&self, gvk: &Gvk, version: &ResourceVersion) {
        let mut newest = self.newest.lock();
        let known = newest.entry(gvk.clone());
        let known = known.or_insert_with(|| version.clone());
        // A version that cannot be ordered does not even count as at least itself.
        if !known.is_at_least(version) {
            *known = if version.is_at_least(known) {
                version.clone()
            } else {
                ResourceVersion::unset()
            };
        }
    }

    /// Returns the minimum version of a kind's first list: any version if this process wrote no object of the kind, and
    /// unset (the newest state) if the versions cannot be ordered.
    pub(crate) fn of(&self, gvk: &Gvk) -> ResourceVersion {
        let newest = self.newest.lock();
        newest
            .get(gvk)
            .cloned()
            .unwrap_or_else(ResourceVersion::any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RYOW-10: a first list must not be older than a version that this process wrote.
    #[test]
    fn the_minimum_version_of_a_kind_never_decreases() {
        let (maps, pods) = (Gvk::new("", "v1", "ConfigMap"), Gvk::new("", "v1", "Pod"));
        let floor = |versions: &[&str]| {
            let written_versions = WrittenVersions::default();
            for version in versions {
                written_versions.raise(&maps, &ResourceVersion::new(version));
            }
            assert_eq!(written_versions.of(&pods), ResourceVersion::any());
            written_versions.of(&maps).as_str().to_owned()
        };
        assert_eq!(floor(&[]), "0");
        assert_eq!(floor(&["9"]), "9");
        assert_eq!(floor(&["9", "10", "8"]), "10");
        // A response has no version after some deletes, and if it was lost.
        assert_eq!(floor(&["9", ""]), "");
        assert_eq!(floor(&["", "9"]), "");
        assert_eq!(floor(&["abc"]), "");
        assert_eq!(floor(&["9", "abc", "10"]), "");
    }
}
