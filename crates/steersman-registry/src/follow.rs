//! Machine: what those inside the server see who act on changes.

use std::sync::Arc;

use steersman_schema::resource::StorageKey;

use crate::store::{Change, Stored};

use super::state::Registry;

impl Registry {
    /// An object as it is stored now.
    pub fn stored(
        &self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Stored>> {
        self.store.get(storage, namespace, name)
    }

    /// The objects of a storage as they are stored now, of one namespace or all.
    pub fn all_stored<'a>(
        &'a self,
        storage: &StorageKey,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        self.store.list(storage, namespace)
    }

    /// The changes of a storage after a revision; `None` where some of them are forgotten.
    pub fn changes_after<'a>(
        &'a self,
        storage: &StorageKey,
        after: u64,
    ) -> Option<impl Iterator<Item = &'a Change> + use<'a>> {
        self.store.changes(storage, after).ok()
    }

    /// The objects of a storage that name `uid` among their owners, in the order of their names.
    pub fn dependents_in(&self, storage: &StorageKey, uid: &str) -> Vec<Arc<Stored>> {
        let known = self.dependents.get(uid).into_iter().flatten();
        known
            .filter(|(at, _, _)| at == storage)
            .filter_map(|(at, namespace, name)| self.store.get(at, namespace, name))
            .cloned()
            .collect()
    }

    /// The revision that was the newest so many revisions ago, as far as the past is remembered.
    pub fn past_revision(&self, ago: u64) -> u64 {
        let past = self.store.revision().saturating_sub(ago);
        past.max(self.store.compacted()).max(1)
    }
}
