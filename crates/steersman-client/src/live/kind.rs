//! Handle: reads of one kind that is a value, that ask the server.

use std::fmt;
use std::marker::PhantomData;

use steersman_api::Paging;
use steersman_object::{Kind, Object, ObjectKey, Selection};

use super::Pages;
use crate::error::Error;
use crate::shared::Shared;

/// The reads of one kind, live. Made by [`Live::of`](crate::Live::of).
///
/// # Cancel safety
///
/// Every read is cancel safe.
#[must_use]
pub struct LiveKind<K> {
    shared: Shared,
    kind: Kind,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> LiveKind<K> {
    pub(crate) fn new(shared: Shared, kind: Kind) -> Self {
        Self {
            shared,
            kind,
            of: PhantomData,
        }
    }

    /// The object, as the server has it now.
    ///
    /// # Errors
    ///
    /// As [`Live::get`](crate::Live::get).
    pub async fn get(&self, key: &ObjectKey) -> Result<K, Error> {
        super::get(&self.shared, &self.kind, key).await
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// As [`Live::get_opt`](crate::Live::get_opt).
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        super::get_opt(&self.shared, &self.kind, key).await
    }

    /// The objects that `selection` selects, all pages of them.
    ///
    /// # Errors
    ///
    /// As [`Live::list`](crate::Live::list).
    pub async fn list(&self, selection: &Selection) -> Result<Vec<K>, Error> {
        super::list(&self.shared, &self.kind, selection).await
    }

    /// The pages of a list, as [`Live::pages`](crate::Live::pages).
    pub fn pages(&self, selection: &Selection, paging: &Paging) -> Pages<K> {
        Pages::new(self.shared.clone(), self.kind.clone(), selection, paging)
    }
}

impl<K> fmt::Debug for LiveKind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveKind")
            .field("kind", &self.kind)
            .field("shared", &self.shared)
            .finish()
    }
}
