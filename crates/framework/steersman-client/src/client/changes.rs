//! Handle: the verbs of a client that change an object by difference.

use std::future::Future;
use std::panic::Location;

use steersman_object::{Kind, Object, ObjectKey, TypedObject, WholeObject};

use super::Client;
use crate::ensure::{Ensured, EnsuredWithStatus};
use crate::error::{Error, absent_is_none};
use crate::finalizer;
use crate::kinds::KindSource;
use crate::options::Lock;
use crate::owner::{OwnerError, controller_of, is_controlled_by, set_controller};
use crate::patch::change::Part;
use crate::patch::status_field::has_status;

/// Changes by difference: a copy is mutated, and the difference is sent.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped, and no further request is sent; see [`Client`].
impl<S> Client<S> {
    /// Creates the object, or changes the existing one until `mutate` has nothing to change.
    ///
    /// The object is read from the cache. If it is absent, `initial` with `mutate` applied is created. If it exists,
    /// `mutate` is applied to a copy and the difference is sent as a merge patch; nothing is sent if there is no
    /// difference. The closure may run several times: it should set the fields that its caller cares for and leave the
    /// others. A closure that replaces the whole spec fights the server's defaults on every call.
    ///
    /// [`Ensured::Unchanged`] is about the object in the cache. A change that another client made on the server a
    /// moment ago may still be on its way; its event runs a reconciler again.
    ///
    /// # Errors
    ///
    /// [`Error::KeptChanging`] after a bounded number of conflicts, [`Error::Renamed`] if the closure changes the name
    /// or namespace, and the errors of a read and of the server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, desired: ConfigMap) -> Result<(), steersman_client::Error> {
    /// let data = desired.data.clone();
    /// let ensured = client.ensure(desired, |config| config.data = data.clone()).await?;
    /// if ensured.is_changed() {
    ///     // A request was sent.
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure<K: WholeObject<By>, By>(
        &self,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let caller = Location::caller();
        async move {
            self.ensure_from(&initial, Part::Object, mutate, caller)
                .await
        }
    }

    /// Ensures an object as [`ensure`](Self::ensure) does, and its status with the same closure: two requests at most,
    /// because a server changes a status only through its subresource.
    ///
    /// The closure runs once more on the object that was created or updated, or that was there, and what it changes
    /// in the status is sent. A status in `initial` is not sent: set it in the closure. Of a type without a status
    /// only the object is ensured.
    ///
    /// The outcome has the five cases of `controllerutil.CreateOrPatch`:
    ///
    /// | `ensured` | `is_status_changed` | `OperationResult` |
    /// | --- | --- | --- |
    /// | `Created` | either | `created` |
    /// | `Updated` | `false` | `updated` |
    /// | `Updated` | `true` | `updatedStatus` |
    /// | `Unchanged` | `true` | `updatedStatusOnly` |
    /// | `Unchanged` | `false` | `unchanged` |
    ///
    /// # Errors
    ///
    /// As [`ensure`](Self::ensure) and [`status().modify`](crate::StatusClient::modify). If the write of the status
    /// fails, that of the object has been executed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn f(client: steersman_client::Client, desired: Deployment) -> Result<(), steersman_client::Error> {
    /// let spec = desired.spec.clone();
    /// let ensured = client
    ///     .ensure_with_status(desired, |deployment| {
    ///         deployment.spec.get_or_insert_default().paused = spec.as_ref().and_then(|spec| spec.paused);
    ///         deployment.status.get_or_insert_default().ready_replicas = Some(1);
    ///     })
    ///     .await?;
    /// println!("the status was changed: {}", ensured.is_status_changed);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure_with_status<K: WholeObject<By>, By>(
        &self,
        initial: K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<EnsuredWithStatus<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let caller = Location::caller();
        async move {
            let kind = self.kinds.kind_of();
            let ensured = self
                .ensure_from(&initial, Part::WithoutStatus, &mut mutate, caller)
                .await?;
            if !has_status(&kind, ensured.object())? {
                return Ok(EnsuredWithStatus::new(ensured, None));
            }
            let lock = self.shared.options().lock;
            let status = self
                .shared
                .change(&kind, ensured.object(), lock, Part::Status, &mut mutate)
                .await?;
            Ok(EnsuredWithStatus::new(ensured, Some(status)))
        }
    }

    /// Ensures, as [`ensure`](Self::ensure) does, an object that `owner` controls: its controller reference is set on
    /// creation and on every change.
    ///
    /// An object of that name that `owner` does not control is left alone, and `mutate` does not run on it: an object
    /// that a user made must not be deleted together with an owner that came later. To adopt such an object, set its
    /// reference with [`modify`](Self::modify) first.
    ///
    /// # Errors
    ///
    /// [`Error::Owner`] if the owner was never created, is in another namespace, or does not control the object.
    /// Otherwise as [`ensure`](Self::ensure).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    /// # async fn f(client: steersman_client::Client, deployment: Deployment) -> Result<(), steersman_client::Error> {
    /// use steersman_object::Object as _;
    ///
    /// let service = Service { metadata: deployment.key().to_meta(), ..Service::default() };
    /// client
    ///     .ensure_owned(&deployment, service, |service| {
    ///         let spec = service.spec.get_or_insert_default();
    ///         spec.selector = Some([("app".to_owned(), "web".to_owned())].into());
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure_owned<O: TypedObject, K: WholeObject<By>, By>(
        &self,
        owner: &O,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let caller = Location::caller();
        async move {
            let owner = (owner, &Kind::of::<O>());
            self.ensure_owned_from(owner, initial, mutate, caller).await
        }
    }

    /// Ensures, as [`ensure_owned`](Self::ensure_owned) does, an object that `owner` of the kind `owner_kind`
    /// controls: for owners that do not name their kind, such as `DynamicObject`.
    ///
    /// # Errors
    ///
    /// As [`ensure_owned`](Self::ensure_owned).
    #[track_caller]
    pub fn ensure_owned_by<O: Object, K: WholeObject<By>, By>(
        &self,
        owner: &O,
        owner_kind: &Kind,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        self.ensure_owned_from((owner, owner_kind), initial, mutate, Location::caller())
    }

    /// Deletes the object of `key` if it exists and `owner` controls it: the counterpart of
    /// [`ensure_owned`](Self::ensure_owned). Returns whether the object is absent afterwards.
    ///
    /// `false` means that finalizers delay the deletion; its end is an event, which reconciles the owner where the
    /// controller owns the kind. Nothing is sent if the object is absent or is being deleted already.
    ///
    /// # Errors
    ///
    /// [`Error::Owner`] if another owner, or none, controls the object, which is left alone then. The owner is known by
    /// its uid: an object of its predecessor is not its own. [`is_conflict`](Error::is_conflict) if another object has
    /// taken the name meanwhile. Otherwise the errors of a read and of the server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    /// # async fn f(client: steersman_client::Client, deployment: Deployment) -> Result<(), steersman_client::Error> {
    /// use steersman_object::Object as _;
    ///
    /// if !client.ensure_absent::<Service>(&deployment, &deployment.key()).await? {
    ///     return Ok(()); // Its end reconciles the Deployment again.
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure_absent<K: Object>(
        &self,
        owner: &impl Object,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<bool, Error>> + Send
    where
        S: KindSource<K>,
    {
        let caller = Location::caller();
        async move {
            let Some(object) = absent_is_none(self.read::<K>(key, caller).await)? else {
                return Ok(true);
            };
            if !is_controlled_by(&*object, owner) {
                let (owner, uid) = (owner.key(), owner.uid_str().to_owned());
                let object = object.key();
                return Err(OwnerError::NotOwn { owner, uid, object }.into());
            }
            if object.meta().deletion_timestamp.is_some() {
                return Ok(false);
            }
            match self.delete(&*object).await {
                Err(refused) if !refused.is_not_found() => return Err(refused),
                _ => {}
            }
            // The read waits until the cache has seen the deletion.
            let left = absent_is_none(self.read::<K>(key, caller).await)?;
            Ok(left.is_none_or(|left| left.uid_str() != object.uid_str()))
        }
    }

    /// Changes this object; nothing is sent if `mutate` changes nothing.
    ///
    /// Starts from `object` as it was read: [`Ensured::Unchanged`] says that `mutate` had nothing to change in it,
    /// even if the server's object differs by now. An object of the same name with another uid is left alone.
    ///
    /// # Errors
    ///
    /// As [`ensure`](Self::ensure); [`is_not_found`](Error::is_not_found) if the object is gone or another object has
    /// its name.
    pub async fn modify<K: Object>(
        &self,
        object: &K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let lock = self.shared.options().lock;
        self.change(object, lock, &mut mutate).await
    }

    /// Adds a finalizer behind the existing ones; nothing is sent if the object has it already.
    ///
    /// An object that is being deleted gets no finalizer, because Kubernetes refuses it: the result is
    /// [`Ensured::Unchanged`], with an object that [`is_being_deleted`](Object::is_being_deleted).
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn add_finalizer<K: Object>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        self.add_finalizers(object, &[finalizer]).await
    }

    /// Adds several finalizers in one request, in their order, as [`add_finalizer`](Self::add_finalizer) does.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn add_finalizers<K: Object>(
        &self,
        object: &K,
        finalizers: &[&str],
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let mut add = |object: &mut K| {
            finalizer::add_all(object, finalizers);
        };
        // Several writers share the list of finalizers, so the patch always carries the version. An object that was
        // deleted meanwhile has another version: it is read live, and then gets no finalizer.
        self.change(object, Lock::Always, &mut add).await
    }

    /// Removes a finalizer; nothing is sent if the object does not have it. An object that is being deleted is gone
    /// once its last finalizer is removed.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn remove_finalizer<K: Object>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let mut remove = |object: &mut K| {
            finalizer::remove(object, finalizer);
        };
        self.change(object, Lock::Always, &mut remove).await
    }

    /// Ensures an object for the code at `caller`. Borrows `initial`, because each future that owns an object is as
    /// large as the object.
    async fn ensure_from<K: Object>(
        &self,
        initial: &K,
        part: Part,
        mut mutate: impl FnMut(&mut K) + Send,
        caller: &'static Location<'static>,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let present = absent_is_none(self.read(&initial.key(), caller).await)?;
        let kind = self.kinds.kind_of();
        self.shared
            .ensure(&kind, initial, present, part, &mut mutate)
            .await
    }

    /// Ensures an owned object for the code at `caller`.
    async fn ensure_owned_from<O: Object, K: Object>(
        &self,
        (owner, owner_kind): (&O, &Kind),
        mut initial: K,
        mut mutate: impl FnMut(&mut K) + Send,
        caller: &'static Location<'static>,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        // An object that cannot be owned is not created.
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
        let ensured = self.ensure_from(&initial, Part::Object, own, caller).await;
        match refused {
            Some(refused) => Err(refused.into()),
            None => ensured,
        }
    }

    async fn change<K: Object>(
        &self,
        object: &K,
        lock: Lock,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        self.shared
            .change(&kind, object, lock, Part::Object, mutate)
            .await
    }
}
