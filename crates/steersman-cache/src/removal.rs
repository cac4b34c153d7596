//! Handle: ends informers while the cache goes on; those that nobody declared end by themselves.

use steersman_object::{Kind, TypedObject};

use crate::cache::Cache;

impl Cache {
    /// Removes the informers of the kind `K`; answers how many there were.
    ///
    /// Their watches stop, their subscribers' streams end, and what the cache held is forgotten, with
    /// the indexes of the kind. A later read or declaration starts anew, with an informer of its own
    /// (`CACHE-7`): whoever holds a handle or a store of a removed one keeps what it last had.
    ///
    /// A controller that watches the kind ends with its subscription: remove what no controller watches.
    pub fn remove<K: TypedObject>(&self) -> usize {
        self.remove_kind(&Kind::of::<K>())
    }

    /// As [`remove`](Self::remove), of a kind known only at runtime.
    pub fn remove_kind(&self, kind: &Kind) -> usize {
        let removed = self.shared.registry.write().remove(kind.gvk());
        for entry in &removed {
            // Outside the lock: subscribers are told.
            entry.end();
        }
        removed.len()
    }
}
