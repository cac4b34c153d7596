//! Handle: the methods of a client that patch an object with the difference that a closure makes.

use steersman_object::{AsObject, Object};

use super::Client;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::finalizer;
use crate::kinds::KindSource;
use crate::options::OptimisticLock;
use crate::patch::change::ChangedPart;

/// Changes by difference: a closure changes a copy of an object, and the client sends the difference.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped, and no further request is sent; see [`Client`].
impl<S> Client<S> {
    /// Changes a copy of `object` with the closure `mutate` and sends the difference, if there is a difference.
    ///
    /// The first attempt starts from `object` as it was read: [`Ensured::Unchanged`] means that `mutate` changed
    /// nothing in it, even if the server's object differs by now. An object of the same name with another uid is left
    /// alone.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is gone or another object has its name;
    /// [`Error::KeptChanging`] after a bounded number of conflicts; [`Error::Renamed`] if the closure changes the name
    /// or namespace; otherwise the errors of the server.
    pub async fn modify<K: Object>(
        &self,
        object: &impl AsObject<K>,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let lock = self.shared.options().lock;
        self.change(object.as_object(), lock, &mut mutate).await
    }

    /// Adds a finalizer behind the existing ones; nothing is sent if the object has it already.
    ///
    /// An object that is being deleted gets no finalizer, because Kubernetes refuses it: the result is
    /// [`Ensured::Unchanged`], with an object that [`is_being_deleted`](Object::is_being_deleted).
    ///
    /// # Errors
    ///
    /// Those of [`modify`](Self::modify), such as [`is_not_found`](Error::is_not_found) if the object is gone.
    pub async fn add_finalizer<K: Object>(
        &self,
        object: &impl AsObject<K>,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        self.add_finalizers(object, &[finalizer]).await
    }

    /// Adds several finalizers in one request, in their order, behind the existing ones. Nothing is sent if the object
    /// has all of them, or is being deleted.
    ///
    /// # Errors
    ///
    /// Those of [`modify`](Self::modify), such as [`is_not_found`](Error::is_not_found) if the object is gone.
    pub async fn add_finalizers<K: Object>(
        &self,
        object: &impl AsObject<K>,
        finalizers: &[&str],
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let mut add = |object: &mut K| {
            finalizer::add_all(object, finalizers);
        };
        // The patch always carries the resource version, because several writers share the list of finalizers. If the
        // deletion of the object has begun meanwhile, the server refuses the outdated version, the object is read live,
        // and it gets no finalizer.
        self.change(object.as_object(), OptimisticLock::Always, &mut add)
            .await
    }

    /// Removes a finalizer; nothing is sent if the object does not have it. An object that is being deleted is gone
    /// once its last finalizer is removed.
    ///
    /// # Errors
    ///
    /// Those of [`modify`](Self::modify), such as [`is_not_found`](Error::is_not_found) if the object is gone.
    pub async fn remove_finalizer<K: Object>(
        &self,
        object: &impl AsObject<K>,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let mut remove = |object: &mut K| {
            finalizer::remove(object, finalizer);
        };
        self.change(object.as_object(), OptimisticLock::Always, &mut remove)
            .await
    }

    async fn change<K: Object>(
        &self,
        object: &K,
        lock: OptimisticLock,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        self.shared
            .change(&kind, object, lock, ChangedPart::Object, mutate)
            .await
    }
}
