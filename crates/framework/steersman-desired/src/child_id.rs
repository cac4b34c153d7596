//! Words: identifies a child of a set.

use std::marker::PhantomData;

/// Identifies a child of one set, for `after` of later children and for the outcome. Made by
/// [`DesiredSet::add`](crate::DesiredSet::add). It has no meaning in another set.
#[derive(derive_more::Debug)]
#[debug("ChildId({index})")]
pub struct ChildId<K> {
    index: usize,
    of: PhantomData<fn() -> K>,
}

impl<K> ChildId<K> {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            of: PhantomData,
        }
    }

    pub(crate) fn index(self) -> usize {
        self.index
    }
}

impl<K> Clone for ChildId<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for ChildId<K> {}
