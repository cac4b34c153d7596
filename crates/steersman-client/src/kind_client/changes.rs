//! Handle: changes by difference, of one kind.

use std::future::Future;
use std::panic::Location;

use steersman_object::{Kind, Object, WholeObject};

use super::KindClient;
use crate::change::Part;
use crate::ensure::Ensured;
use crate::error::{Error, absent_is_none};
use crate::finalizer;
use crate::options::Lock;
use crate::owner::{OwnerError, controller_of, set_controller};

/// Changes by difference: read, mutate a copy, send what differs.
///
/// # Cancel safety
///
/// What was sent is finished, whoever waits for it, and nothing is sent after it; see
/// [`Client`](crate::Client).
impl<K: Object> KindClient<K> {
    /// Creates the object, or changes the one that is there until `mutate` has nothing to change.
    ///
    /// # Errors
    ///
    /// As [`Client::ensure`](crate::Client::ensure).
    #[track_caller]
    pub fn ensure<By>(
        &self,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        K: WholeObject<By>,
    {
        let caller = Location::caller();
        async move { self.ensure_at(&initial, mutate, caller).await }
    }

    /// As [`ensure`](Self::ensure), for an object that `owner`, which is of the kind `owner_kind`, controls.
    ///
    /// # Errors
    ///
    /// As [`Client::ensure_owned`](crate::Client::ensure_owned).
    #[track_caller]
    pub fn ensure_owned<O: Object, By>(
        &self,
        owner: &O,
        owner_kind: &Kind,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        K: WholeObject<By>,
    {
        self.ensure_owned_at((owner, owner_kind), initial, mutate, Location::caller())
    }

    /// Changes this very object, as [`Client::modify`](crate::Client::modify).
    ///
    /// # Errors
    ///
    /// As [`Client::modify`](crate::Client::modify).
    pub async fn modify(
        &self,
        object: &K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        let lock = self.shared.options().lock;
        self.change(object, lock, &mut mutate).await
    }

    /// Changes `before` into `after` by their difference.
    ///
    /// # Errors
    ///
    /// As [`Client::merge`](crate::Client::merge).
    pub async fn merge(&self, before: &K, after: &K) -> Result<Ensured<K>, Error> {
        let (kind, part) = (&self.kind, Part::Object);
        self.shared.merge(kind, before, after, part).await
    }

    /// Adds a finalizer, behind those that are there; nothing is sent when it is there.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn add_finalizer(&self, object: &K, finalizer: &str) -> Result<Ensured<K>, Error> {
        let mut add = |object: &mut K| {
            finalizer::add(object, finalizer);
        };
        // Finalizers are a list that several write: the version is always minded.
        self.change(object, Lock::Always, &mut add).await
    }

    /// Removes a finalizer; nothing is sent when it is not there.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn remove_finalizer(&self, object: &K, finalizer: &str) -> Result<Ensured<K>, Error> {
        let mut remove = |object: &mut K| {
            finalizer::remove(object, finalizer);
        };
        self.change(object, Lock::Always, &mut remove).await
    }

    /// As `ensure`, on behalf of another place in the code. Each future that owns the object is as large
    /// as it, so this one borrows.
    pub(crate) async fn ensure_at(
        &self,
        initial: &K,
        mut mutate: impl FnMut(&mut K) + Send,
        caller: &'static Location<'static>,
    ) -> Result<Ensured<K>, Error> {
        let present = absent_is_none(self.read(&initial.key(), caller).await)?;
        self.shared
            .ensure(&self.kind, initial, present, &mut mutate)
            .await
    }

    /// As `ensure_owned`, on behalf of another place in the code.
    pub(crate) async fn ensure_owned_at<O: Object>(
        &self,
        (owner, owner_kind): (&O, &Kind),
        mut initial: K,
        mut mutate: impl FnMut(&mut K) + Send,
        caller: &'static Location<'static>,
    ) -> Result<Ensured<K>, Error> {
        // Nothing is created that could not be owned.
        set_controller(owner, owner_kind, &mut initial)?;
        let mut refused = None;
        let own = |object: &mut K| {
            let uncontrolled = controller_of(object.meta()).is_none();
            refused = if object.meta().uid.is_some() && uncontrolled {
                Some(OwnerError::NotControlled {
                    object: object.key(),
                })
            } else {
                set_controller(owner, owner_kind, object).err()
            };
            if refused.is_none() {
                mutate(object);
            }
        };
        let ensured = self.ensure_at(&initial, own, caller).await;
        match refused {
            Some(refused) => Err(refused.into()),
            None => ensured,
        }
    }

    async fn change(
        &self,
        object: &K,
        lock: Lock,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        self.shared
            .change(&self.kind, object, lock, Part::Object, mutate)
            .await
    }
}
