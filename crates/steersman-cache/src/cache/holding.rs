//! Handle: which informer holds an object, for those who wait until it has heard of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_informer::Mirror;
use steersman_object::{Gvk, ObjectKey};

use super::Cache;
use crate::asks::Asks;
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

    /// Whether an informer runs that would hold an object of this key with these labels, once it has heard
    /// of it.
    ///
    /// No, where the kind is cached under a field selector that names anything but the namespace: key and
    /// labels do not tell.
    #[must_use]
    pub fn would_hold(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let coverage = self.shared.known(gvk);
        coverage.is_some_and(|coverage| coverage.would_hold(key, labels))
            && self.mirror_of(gvk, key).is_some()
    }

    fn mirror_at(&self, gvk: &Gvk, namespace: Option<Arc<str>>) -> Option<Mirror> {
        let gvk = gvk.clone();
        let entry = self.shared.registry.read().get(&Slot { gvk, namespace })?;
        Some(entry.mirror().clone()).filter(Mirror::is_running)
    }
}
