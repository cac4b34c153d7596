//! Handle: looks at a cached form of a body without counting as a read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{MappedRwLockReadGuard, RwLockReadGuard};
use steersman_object::Object;

use super::Body;
use crate::body::forms::AnyDecoded;

pub(crate) struct PeekGuard<'a>(MappedRwLockReadGuard<'a, AnyDecoded>);

impl Body {
    /// Returns the form cached for `K`, unless a writer holds the body's lock.
    pub(crate) fn try_peek<K: Object>(&self) -> Option<PeekGuard<'_>> {
        let state = self.state.try_read()?;
        let object = RwLockReadGuard::try_map(state, |state| state.forms.object::<K>());
        object.ok().map(PeekGuard)
    }

    pub(crate) fn is_visited(&self) -> bool {
        self.visited.load(Ordering::Relaxed)
    }
}

impl PeekGuard<'_> {
    /// Returns the reference count of the object. Reading it loads the object into the processor's cache.
    pub(crate) fn shared_by(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn object<K: Object>(&self) -> Option<Arc<K>> {
        Arc::clone(&self.0).downcast().ok()
    }
}
