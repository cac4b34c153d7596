//! Handle: a look at a cached form of a body without counting as a read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{MappedRwLockReadGuard, RwLockReadGuard};
use steersman_object::Object;

use super::Body;
use crate::body::forms::Decoded;

/// What a type made of a body: as long as this is held it stays where it is.
pub(crate) struct PeekGuard<'a>(MappedRwLockReadGuard<'a, Decoded>);

impl Body {
    /// What a `K` was made of it, where that is at hand and nobody changes what is held. It does not
    /// count as read.
    pub(crate) fn try_peek<K: Object>(&self) -> Option<PeekGuard<'_>> {
        let state = self.state.try_read()?;
        let object = RwLockReadGuard::try_map(state, |state| state.forms.object::<K>());
        object.ok().map(PeekGuard)
    }

    /// Whether it was read since the budget asked.
    pub(crate) fn is_visited(&self) -> bool {
        self.visited.load(Ordering::Relaxed)
    }
}

impl PeekGuard<'_> {
    /// How many share the object. This only looks.
    pub(crate) fn shared_by(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn object<K: Object>(&self) -> Option<Arc<K>> {
        Arc::clone(&self.0).downcast().ok()
    }
}
