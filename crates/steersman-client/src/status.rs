//! Handle: the status subresource: what a controller says about an object.

use serde::Serialize;
use steersman_object::{Kind, ObjectKey, TypedObject};

use crate::change::Part;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::shared::Shared;

/// Writes the status of objects, and nothing else of them. Made by [`Client::status`](crate::Client::status).
///
/// # Cancel safety
///
/// As that of the [`Client`](crate::Client).
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
            .change(&Kind::of::<K>(), object, lock, Part::Status, &mut mutate)
            .await
    }

    /// Changes the status of `before` into that of `after` by their difference, in one request; none where there
    /// is no difference. What differs outside the status is ignored.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) where the object has changed since `before` was read, unless
    /// [`Lock::Never`](crate::Lock::Never) is set; [`is_not_found`](Error::is_not_found) where it is gone, or another
    /// has its name; else what the server says.
    pub async fn merge<K: TypedObject>(&self, before: &K, after: &K) -> Result<Ensured<K>, Error> {
        let kind = Kind::of::<K>();
        self.shared.merge(&kind, before, after, Part::Status).await
    }

    /// Applies a status: `part` is an object, or any struct or value, with a `status`. What else it holds is not
    /// applied.
    ///
    /// # Errors
    ///
    /// As [`Client::apply`](crate::Client::apply).
    pub async fn apply<K: TypedObject>(
        &self,
        key: &ObjectKey,
        part: &(impl Serialize + Sync),
    ) -> Result<K, Error> {
        self.shared
            .apply_part(&Kind::of::<K>(), key, "status", part)
            .await
    }

    /// Replaces the status by that of `object`, refused when the object changed since it was read.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] where it has no resource version, [`is_conflict`](Error::is_conflict) where that
    /// is not the newest, [`is_not_found`](Error::is_not_found) where it is gone or another has its name,
    /// [`Error::Transformed`] where the kind is cached through a transform. Else what the server says.
    pub async fn update<K: TypedObject>(&self, object: &K) -> Result<K, Error> {
        self.shared
            .replace(&Kind::of::<K>(), object, Part::Status)
            .await
    }
}
