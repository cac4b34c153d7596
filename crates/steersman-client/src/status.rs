//! Handle: the status subresource: what a controller says about an object.

use steersman_object::TypedObject;

use crate::change::Part;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::shared::Shared;

/// Writes the status of objects, and nothing else of them. Made by [`Client::status`](crate::Client::status).
///
/// # Cancel safety
///
/// A write whose future is dropped before the answer may have been done or not; it may simply be called again.
#[derive(Clone, Debug)]
#[must_use]
pub struct StatusClient {
    shared: Shared,
}

impl StatusClient {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// Changes the status by difference: a merge patch of what `mutate` changed in it, and no request when
    /// that is nothing. What it changes outside the status is ignored.
    ///
    /// Starts from `object` as it was read; nothing to change in it is [`Ensured::Unchanged`], whatever the
    /// server has by now. Where the object has changed since, it is read live and `mutate` runs again, unless
    /// [`Lock::Never`](crate::Lock::Never) is set.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where the object is gone, or another has its name;
    /// [`Error::KeptChanging`] after a bounded number of conflicts; else what the server says.
    pub async fn patch<K: TypedObject>(
        &self,
        object: &K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        let lock = self.shared.options().lock;
        self.shared
            .change(object, lock, Part::Status, &mut mutate)
            .await
    }

    /// Replaces the status by that of `object`, refused when the object changed since it was read.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] where it has no resource version, [`is_conflict`](Error::is_conflict) where that
    /// is not the newest, [`is_not_found`](Error::is_not_found) where it is gone or another has its name. Else what
    /// the server says.
    pub async fn update<K: TypedObject>(&self, object: &K) -> Result<K, Error> {
        self.shared.replace(object, Part::Status).await
    }
}
