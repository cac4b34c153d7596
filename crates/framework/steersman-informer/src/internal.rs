//! Handle: methods of a store that only other crates of this workspace call. They are not part of the public interface
//! and may change in any release.
//!
//! `steersman-cache` offers `steersman-client` reads that never wait.

use std::sync::Arc;

use steersman_object::{Object, ObjectKey};

use crate::store::Store;

/// The methods of a [`Store`] that `steersman-cache` calls.
pub trait StoreInternals<K> {
    /// Returns an object if it is decoded and no writer holds the lock of the store. Never waits and decodes nothing;
    /// `None` does not mean that the object is absent, which [`Store::try_get`] reports.
    fn get_decoded(&self, key: &ObjectKey) -> Option<Arc<K>>;
}

impl<K: Object> StoreInternals<K> for Store<K> {
    fn get_decoded(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.get_if_decoded(key)
    }
}
