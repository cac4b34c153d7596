//! Machine: the discovery documents that were read from a server.

use std::collections::HashMap;

use steersman_object::Gvk;

use super::document::{GroupDocument, ServedResource, VersionDocument};

/// The discovery documents read so far. They do not expire by themselves.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    /// The versions of a group, the preferred one first.
    groups: HashMap<String, Vec<String>>,
    versions: HashMap<(String, String), Vec<ServedResource>>,
}

impl KindTable {
    pub(super) fn note_group(&mut self, group: GroupDocument) {
        self.groups.insert(group.name, group.versions);
    }

    pub(super) fn note_version(&mut self, version: VersionDocument) {
        if let Some(served) = version.served {
            let place = (version.group, version.version);
            self.versions.insert(place, served);
        }
    }

    pub(super) fn forget(&mut self, group: &str) {
        self.groups.remove(group);
        self.versions.retain(|(of, _), _| of != group);
    }

    pub(super) fn versions_of(&self, group: &str) -> Option<Vec<String>> {
        self.groups.get(group).cloned()
    }

    pub(super) fn by_kind(&self, gvk: &Gvk) -> Option<ServedResource> {
        self.find(gvk.group(), gvk.version(), |served| {
            served.kind.gvk().kind() == gvk.kind()
        })
    }

    pub(super) fn by_plural(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<ServedResource> {
        self.find(group, version, |served| served.kind.plural() == plural)
    }

    fn find(
        &self,
        group: &str,
        version: &str,
        fits: impl Fn(&ServedResource) -> bool,
    ) -> Option<ServedResource> {
        let place = (group.to_owned(), version.to_owned());
        self.versions.get(&place)?.iter().find(|s| fits(s)).cloned()
    }
}
