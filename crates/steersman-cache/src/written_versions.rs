//! Handle: how new the first list of a kind has to be, so that it shows what this process wrote.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_object::{Gvk, ResourceVersion};

/// The newest version of each kind that this process wrote (RYOW-10).
#[derive(Debug, Default)]
pub(crate) struct Floors {
    /// Unset where no version is known to be new enough: then only the newest state is.
    newest: Mutex<HashMap<Gvk, ResourceVersion>>,
}

impl Floors {
    /// Notes a write of a kind at a version. A version that is unset, or that cannot be compared, asks for the
    /// newest state from then on.
    pub(crate) fn raise(&self, gvk: &Gvk, version: &ResourceVersion) {
        let mut newest = self.newest.lock();
        let Some(known) = newest.get_mut(gvk) else {
            let version = if version.compare(version).is_some() {
                version.clone()
            } else {
                ResourceVersion::unset()
            };
            newest.insert(gvk.clone(), version);
            return;
        };
        if !known.is_at_least(version) {
            *known = if version.is_at_least(known) {
                version.clone()
            } else {
                ResourceVersion::unset()
            };
        }
    }

    /// What the first list of a kind starts from: any version where this process wrote nothing of the kind, and the
    /// newest (unset) where no written version is known to be the newest.
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

    /// RYOW-10
    #[test]
    fn the_floor_of_a_kind_rises_with_each_write_and_never_falls() {
        let (maps, pods) = (Gvk::new("", "v1", "ConfigMap"), Gvk::new("", "v1", "Pod"));
        let floor = |versions: &[&str]| {
            let floors = Floors::default();
            for version in versions {
                floors.raise(&maps, &ResourceVersion::new(version));
            }
            assert_eq!(floors.of(&pods), ResourceVersion::any());
            floors.of(&maps).as_str().to_owned()
        };
        assert_eq!(floor(&[]), "0");
        assert_eq!(floor(&["9"]), "9");
        assert_eq!(floor(&["9", "10", "8"]), "10");
        // An answer without a version: a delete, or one that was lost.
        assert_eq!(floor(&["9", ""]), "");
        assert_eq!(floor(&["", "9"]), "");
        assert_eq!(floor(&["abc"]), "");
        assert_eq!(floor(&["9", "abc", "10"]), "");
    }
}
