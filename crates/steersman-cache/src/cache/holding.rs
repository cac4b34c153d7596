//! Handle: which informer holds an object, for those who wait until it has heard of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_informer::Mirror;
use steersman_object::{Gvk, ObjectKey, ResourceVersion};

use super::Cache;
use crate::asks::Asks;
use crate::coverage::Membership;
use crate::registry::Slot;

impl Cache {
    /// The running informer that holds the objects of a key, where there is one. Declares nothing.
    #[must_use]
    pub fn mirror_of(&self, gvk: &Gvk, key: &ObjectKey) -> Option<Mirror> {
        let coverage = self.shared.known(gvk)?;
        self.mirror_at(gvk, coverage.informer_for(key).ok()?)
    }

    /// What the running informer that covers a namespace asks of its server there (of a cluster-scoped kind,
    /// without one), where there is such an informer. Declares and asks nothing.
    #[must_use]
    pub fn asks_in(&self, gvk: &Gvk, namespace: Option<&str>) -> Option<Asks> {
        let coverage = self.shared.known(gvk)?;
        let somewhere = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let place = coverage.informer_for(&somewhere).ok()?;
        let settings = coverage.settings(place.as_deref())?.clone();
        let mirror = self.mirror_at(gvk, place)?;
        let namespace = namespace.filter(|_| mirror.kind().is_namespaced());
        Some(Asks {
            namespace: namespace.map(ToOwned::to_owned),
            settings,
            mirror,
        })
    }

    /// Whether the informer that looks into the namespace of a key holds an object of this key with these labels
    /// (`None`: not known), once it has heard of the object. `None` where no such informer runs.
    #[must_use]
    pub fn membership(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<Membership> {
        let membership = self.shared.known(gvk)?.membership(key, labels)?;
        self.mirror_of(gvk, key).map(|_| membership)
    }

    /// Notes that this process wrote an object of a kind, at this version of the object (unset where the answer of
    /// the write named no version): the first list of an informer that begins after that is at least as new
    /// (RYOW-10). Informers that run are not concerned.
    pub fn note_written(&self, gvk: &Gvk, version: &ResourceVersion) {
        self.shared.floors.raise(gvk, version);
    }

    fn mirror_at(&self, gvk: &Gvk, namespace: Option<Arc<str>>) -> Option<Mirror> {
        let gvk = gvk.clone();
        let entry = self.shared.registry.read().get(&Slot { gvk, namespace })?;
        Some(entry.mirror().clone()).filter(Mirror::is_running)
    }
}
