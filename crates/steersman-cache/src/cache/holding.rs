//! Handle: which informer holds an object, for those who wait until it has heard of one.

use std::collections::BTreeMap;

use steersman_informer::Mirror;
use steersman_object::{Gvk, ObjectKey};

use super::Cache;
use crate::registry::Slot;

impl Cache {
    /// The running informer that holds the objects of a key, where there is one. Declares nothing.
    #[must_use]
    pub fn mirror_of(&self, gvk: &Gvk, key: &ObjectKey) -> Option<Mirror> {
        let coverage = self.shared.known(gvk)?;
        let slot = Slot {
            gvk: gvk.clone(),
            namespace: coverage.informer_for(key).ok()?,
        };
        let entry = self.shared.registry.lock().get(&slot)?;
        Some(entry.mirror().clone()).filter(Mirror::is_running)
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
}
