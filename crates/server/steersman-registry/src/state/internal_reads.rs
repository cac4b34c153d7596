//! Machine: reads of the store for components inside the server, such as the simulator.

use std::sync::Arc;

use steersman_schema::resource::StorageKey;
use steersman_store::{Change, Stored};

use super::registry::Registry;

impl Registry {
    /// Returns the stored state of an object.
    pub fn stored(
        &self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Stored>> {
        self.store.get(storage, namespace, name)
    }

    /// Returns the stored objects of one namespace or all.
    pub fn all_stored<'a>(
        &'a self,
        storage: &StorageKey,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        self.store.list(storage, namespace)
    }

    /// Returns the changes of a storage after a revision; `None` if some were compacted.
    pub fn changes_after<'a>(
        &'a self,
        storage: &StorageKey,
        after: u64,
    ) -> Option<impl Iterator<Item = &'a Change> + use<'a>> {
        self.store.changes(storage, after).ok()
    }

    /// Returns the objects of a storage with this owner uid, in the order of their names.
    pub fn dependents_in(&self, storage: &StorageKey, uid: &str) -> Vec<Arc<Stored>> {
        let known = self.dependents.get(uid).into_iter().flatten();
        known
            .filter(|(at, _, _)| at == storage)
            .filter_map(|(at, namespace, name)| self.store.get(at, namespace, name))
            .cloned()
            .collect()
    }

    /// Returns the revision `ago` revisions before the newest, limited by what is retained.
    pub fn past_revision(&self, ago: u64) -> u64 {
        let past = self.store.revision().saturating_sub(ago);
        past.max(self.store.compacted()).max(1)
    }
}
