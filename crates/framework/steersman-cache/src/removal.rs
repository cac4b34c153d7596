//! Handle: removes the informers of a kind from a running cache.

use steersman_object::{Kind, TypedObject};

use crate::cache::Cache;

impl Cache {
    /// Ends the informers of the kind `K`, removes them from the cache and returns their number.
    ///
    /// Their watches stop, the subscriptions end at once, without the events that wait, and the cache
    /// drops the objects and the indexes of the kind. A later read or declaration creates a new informer (CACHE-7).
    /// Handles and stores of a removed informer keep its last state.
    ///
    /// A controller that watches the kind ends with its subscription.
    pub fn remove<K: TypedObject>(&self) -> usize {
        self.remove_kind(&Kind::of::<K>())
    }

    /// Removes the informers like [`remove`](Self::remove), for a kind known only at runtime.
    pub fn remove_kind(&self, kind: &Kind) -> usize {
        self.shared.scope.indexes.lock().remove(kind.gvk());
        let removed = self.shared.registry.write().remove(kind.gvk());
        for entry in &removed {
            // `end` is called outside the lock of the registry, because it notifies subscribers.
            entry.end();
        }
        removed.len()
    }
}
