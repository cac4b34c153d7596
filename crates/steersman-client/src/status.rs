//! Handle: the status subresource: what a controller says about an object.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use steersman_object::{Kind, Object, ObjectKey, TypedObject, WholeObject};

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

/// As [`StatusClient`], of one kind that is a value. Made by [`KindClient::status`](crate::KindClient::status).
///
/// # Cancel safety
///
/// As that of the [`Client`](crate::Client).
#[must_use]
pub struct KindStatus<K> {
    shared: Shared,
    kind: Kind,
    of: PhantomData<fn() -> K>,
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
    /// [`Error::KeptChanging`] after a bounded number of conflicts; [`Error::NoStatus`] where the type `K` has no
    /// status, or the server serves none of the kind; else what the server says.
    pub async fn patch<K: TypedObject>(
        &self,
        object: &K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        self.typed().patch(object, mutate).await
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
        self.typed().merge(before, after).await
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
        self.typed().apply(key, part).await
    }

    /// Replaces the status by that of `object`, refused when the object changed since it was read.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] where it has no resource version, [`is_conflict`](Error::is_conflict) where that
    /// is not the newest, [`is_not_found`](Error::is_not_found) where it is gone or another has its name,
    /// [`Error::Transformed`] where the kind is cached through a transform. Else what the server says.
    pub async fn update<K: TypedObject + WholeObject<By>, By>(
        &self,
        object: &K,
    ) -> Result<K, Error> {
        self.typed().update(object).await
    }

    fn typed<K: TypedObject>(&self) -> KindStatus<K> {
        KindStatus::new(self.shared.clone(), Kind::of::<K>())
    }
}

impl<K: Object> KindStatus<K> {
    pub(crate) fn new(shared: Shared, kind: Kind) -> Self {
        Self {
            shared,
            kind,
            of: PhantomData,
        }
    }

    /// Changes the status by difference.
    ///
    /// # Errors
    ///
    /// As [`StatusClient::patch`].
    pub async fn patch(
        &self,
        object: &K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        let lock = self.shared.options().lock;
        self.shared
            .change(&self.kind, object, lock, Part::Status, &mut mutate)
            .await
    }

    /// Changes the status of `before` into that of `after` by their difference, in one request.
    ///
    /// # Errors
    ///
    /// As [`StatusClient::merge`].
    pub async fn merge(&self, before: &K, after: &K) -> Result<Ensured<K>, Error> {
        let (kind, part) = (&self.kind, Part::Status);
        self.shared.merge(kind, before, after, part).await
    }

    /// Applies a status: `part` is anything with a `status`.
    ///
    /// # Errors
    ///
    /// As [`StatusClient::apply`].
    pub async fn apply(&self, key: &ObjectKey, part: &(impl Serialize + Sync)) -> Result<K, Error> {
        self.shared
            .apply_part(&self.kind, key, "status", part)
            .await
    }

    /// Replaces the status by that of `object`.
    ///
    /// # Errors
    ///
    /// As [`StatusClient::update`].
    pub async fn update<By>(&self, object: &K) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        self.shared.replace(&self.kind, object, Part::Status).await
    }
}

impl<K> Clone for KindStatus<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            kind: self.kind.clone(),
            of: PhantomData,
        }
    }
}

impl<K> fmt::Debug for KindStatus<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindStatus")
            .field("kind", &self.kind)
            .field("shared", &self.shared)
            .finish()
    }
}
