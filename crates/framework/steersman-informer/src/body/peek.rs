//! Handle: looks at the cached decoded value of a body without counting as a read, which would delay its eviction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{MappedRwLockReadGuard, RwLockReadGuard};
use steersman_object::Object;

use super::Body;
use crate::body::forms::AnyDecoded;

pub(crate) struct PeekGuard<'a>(MappedRwLockReadGuard<'a, AnyDecoded>);

impl Body {
    /// Returns the cached object decoded as a `K`; `None` if there is none, or if a writer holds the body's lock.
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
    /// Returns the reference count of the object. The call loads the object's memory into the processor's cache.
    pub(crate) fn shared_by(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn object<K: Object>(&self) -> Option<Arc<K>> {
        Arc::clone(&self.0).downcast().ok()
    }
}
