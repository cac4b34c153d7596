//! Handle: writes of the status subresource.

use serde::Serialize;
use steersman_object::{AsObject, Object, ObjectKey, WholeObject};

use crate::ensure::Ensured;
use crate::error::Error;
use crate::kinds::{KindSource, TypedKinds};
use crate::patch::change::ChangedPart;
use crate::shared::SharedClient;

/// Writes the status of objects, and no other part of them. Made by [`Client::status`](crate::Client::status).
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped, and no further request is sent; see
/// [`Client`](crate::Client).
#[derive(Clone, Debug)]
#[must_use]
pub struct StatusClient<S = TypedKinds> {
    shared: SharedClient,
    kinds: S,
}

impl<S> StatusClient<S> {
    pub(crate) fn new(shared: SharedClient, kinds: S) -> Self {
        Self { shared, kinds }
    }

    /// Changes the status by difference: sends a merge patch of the changes that `mutate` makes in the status, or
    /// nothing without such a change. Changes outside the status are ignored.
    ///
    /// The first attempt starts from `object` as it was read: [`Ensured::Unchanged`] means that `mutate` changed
    /// nothing in its status, even if the server's object differs by now. If the object has changed since, it is read
    /// live and `mutate` runs again, unless [`OptimisticLock::Never`](crate::OptimisticLock::Never) is set.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is gone or another object has its name;
    /// [`Error::KeptChanging`] after a bounded number of conflicts; [`Error::NoStatus`] if the type `K` has no status,
    /// or the server serves no status of the kind; otherwise the errors of the server.
    pub async fn modify<K: Object>(
        &self,
        object: &impl AsObject<K>,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let (kind, lock) = (self.kinds.kind_of(), self.shared.options().lock);
        let object = object.as_object();
        self.shared
            .change(&kind, object, lock, ChangedPart::Status, &mut mutate)
            .await
    }

    /// Changes the status of `before` to the status of `after`: sends the difference in one request, or nothing if the
    /// statuses are equal. Differences outside the status are ignored.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) if the object has changed since `before` was read, unless
    /// [`OptimisticLock::Never`](crate::OptimisticLock::Never) is set; [`is_not_found`](Error::is_not_found) if the
    /// object is gone or another object has its name; otherwise the errors of the server.
    pub async fn merge<K: Object>(
        &self,
        before: &impl AsObject<K>,
        after: &impl AsObject<K>,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let (before, after) = (before.as_object(), after.as_object());
        let kind = self.kinds.kind_of();
        self.shared
            .merge(&kind, before, after, ChangedPart::Status)
            .await
    }

    /// Applies a status. `part` is any value with a `status`, such as a whole object; its other fields are not applied.
    ///
    /// # Errors
    ///
    /// [`Error::ApplyConflict`], with `force` off, if another manager set a field to another value; [`Error::NoStatus`]
    /// if the server serves no status of the kind; otherwise the errors of the server.
    pub async fn apply<K: Object>(
        &self,
        key: &ObjectKey,
        part: &(impl Serialize + Sync),
    ) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        self.shared.apply_part(&kind, key, "status", part).await
    }

    /// Replaces the status by the status of `object`. The server refuses the request if the object changed since it was
    /// read.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] if the object has no resource version, [`is_conflict`](Error::is_conflict) if that
    /// version is not the newest, [`is_not_found`](Error::is_not_found) if the object is gone or another object has
    /// its name, [`Error::Transformed`] if the kind is cached through a transform. Otherwise the errors of the server.
    pub async fn update<K: WholeObject<By>, By>(
        &self,
        object: &impl AsObject<K>,
    ) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        self.shared
            .replace(&kind, object.as_object(), ChangedPart::Status)
            .await
    }
}
