//! Handle: the create-or-patch of a client, with its options.

use std::marker::PhantomData;
use std::panic::Location;

use futures::future::BoxFuture;
use steersman_object::{AsObject, Initial, Kind, Object, ObjectKey, TypedObject, WholeObject};

use super::Client;
use crate::ensure::{Ensured, EnsuredWithStatus};
use crate::error::{Error, absent_is_none};
use crate::kinds::KindSource;
use crate::owner::{OwnerError, controller_of, is_controlled_by, set_controller};
use crate::patch::change::ChangedPart;
use crate::patch::status_field::has_status;

/// One create-or-patch, made by [`Client::ensure`]. Awaiting it sends the requests and returns [`Ensured`].
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped, and no further request is sent; see [`Client`].
#[derive(derive_more::Debug)]
#[debug(
    "EnsureRequest {{ client: {client:?}, initial: {:?}, is_owned: {}, .. }}",
    initial.key(), set_owner.is_some()
)]
#[debug(bound(K: Object))]
#[must_use = "the object is created or changed when this is awaited"]
pub struct EnsureRequest<'a, S, K, F> {
    client: &'a Client<S>,
    initial: K,
    mutate: F,
    set_owner: Option<SetOwner<'a, K>>,
    caller: &'static Location<'static>,
}

/// One delete of an owned object, made by [`Client::ensure_absent`]; [`owned_by`](Self::owned_by) sends it.
#[derive(Debug)]
#[must_use = "the object is deleted when `owned_by` is awaited"]
pub struct EnsureAbsentRequest<'a, S, K> {
    client: &'a Client<S>,
    key: &'a ObjectKey,
    caller: &'static Location<'static>,
    object: PhantomData<fn() -> K>,
}

/// A closure that sets the controller reference on an object, or returns the reason why the owner cannot control it.
type SetOwner<'a, K> = Box<dyn Fn(&mut K) -> Result<(), OwnerError> + Send + Sync + 'a>;

/// Creates objects, changes existing objects by difference, and deletes owned objects.
impl<S> Client<S> {
    /// Creates an object, or changes the existing one until `mutate` has nothing to change.
    ///
    /// `initial` is the object to create, or the key of an object for which `mutate` sets everything else. The object
    /// is read from the cache. If it is absent, `initial` with `mutate` applied is created. If it exists, `mutate` is
    /// applied to a copy and the difference is sent as a merge patch; nothing is sent if there is no difference. The
    /// closure may run several times. It should set only the fields that its caller decides: a closure that replaces
    /// the whole spec removes the defaults that the server has set, so that every call sends a request.
    ///
    /// [`owned_by`](EnsureRequest::owned_by) sets the controller reference, and
    /// [`with_status`](EnsureRequest::with_status) sends the status as well.
    ///
    /// [`Ensured::Unchanged`] is about the object in the cache. If another client changed the object a moment ago, the
    /// cache may not show the change yet; the event of that change runs a reconciler again.
    ///
    /// # Errors
    ///
    /// [`Error::KeptChanging`] after a bounded number of conflicts, [`Error::Renamed`] if the closure changes the name
    /// or namespace, and the errors of a read and of the server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// # async fn f(client: steersman_client::Client, owner: Deployment) -> Result<(), steersman_client::Error> {
    /// use steersman_object::ObjectKey;
    ///
    /// let ensured = client
    ///     .ensure(ObjectKey::namespaced("shop", "colours"), |config: &mut ConfigMap| {
    ///         config.data.get_or_insert_default().insert("sky".to_owned(), "blue".to_owned());
    ///     })
    ///     .owned_by(&owner)
    ///     .await?;
    /// if ensured.is_changed() {
    ///     // A request was sent.
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure<K: WholeObject<By>, By, F>(
        &self,
        initial: impl Initial<K>,
        mutate: F,
    ) -> EnsureRequest<'_, S, K, F>
    where
        S: KindSource<K>,
        F: FnMut(&mut K) + Send,
    {
        EnsureRequest {
            client: self,
            initial: initial.into_initial(),
            mutate,
            set_owner: None,
            caller: Location::caller(),
        }
    }

    /// Deletes the object of `key` if it exists and an owner controls it: the counterpart of [`ensure`](Self::ensure).
    /// The delete is sent by [`owned_by`](EnsureAbsentRequest::owned_by), which names the owner.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    /// # async fn f(client: steersman_client::Client, deployment: Arc<Deployment>) -> Result<(), steersman_client::Error> {
    /// use steersman_object::Object as _;
    ///
    /// if !client.ensure_absent::<Service>(&deployment.key()).owned_by(&deployment).await? {
    ///     return Ok(()); // Its end reconciles the Deployment again.
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure_absent<'a, K: Object>(
        &'a self,
        key: &'a ObjectKey,
    ) -> EnsureAbsentRequest<'a, S, K>
    where
        S: KindSource<K>,
    {
        EnsureAbsentRequest {
            client: self,
            key,
            caller: Location::caller(),
            object: PhantomData,
        }
    }
}

impl<S: KindSource<K>, K: Object> EnsureAbsentRequest<'_, S, K> {
    /// Deletes the object if it exists and `owner` controls it. Returns whether the object is absent afterwards.
    ///
    /// `false` means that finalizers delay the deletion. The end of the deletion is an event; if the controller owns
    /// the kind, this event reconciles the owner. Nothing is sent if the object is absent or already being deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Owner`] if `owner` does not control the object, which is then left alone. The owner is known by its
    /// uid, so `owner` does not control the objects of a predecessor with its name. [`is_conflict`](Error::is_conflict)
    /// if another object has taken the name meanwhile. Otherwise the errors of a read and of the server.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is finished even if this future is dropped, and no further request is sent; see
    /// [`Client`].
    pub async fn owned_by<O: Object>(self, owner: &impl AsObject<O>) -> Result<bool, Error> {
        let (client, key) = (self.client, self.key);
        let Some(object) = absent_is_none(client.read::<K>(key, self.caller).await)? else {
            return Ok(true);
        };
        if !is_controlled_by(&object, owner) {
            let owner = owner.as_object();
            let (owner, uid) = (owner.key(), owner.uid_str().to_owned());
            let object = object.key();
            return Err(OwnerError::NotOwn { owner, uid, object }.into());
        }
        if object.is_being_deleted() {
            return Ok(false);
        }
        absent_is_none(client.delete(&object).await)?;
        // This read waits until the cache has seen the delete, so it shows whether finalizers keep the object.
        let left = absent_is_none(client.read::<K>(key, self.caller).await)?;
        Ok(left.is_none_or(|left| left.uid_str() != object.uid_str()))
    }
}

impl<'a, S: KindSource<K>, K: Object, F: FnMut(&mut K) + Send> EnsureRequest<'a, S, K, F> {
    /// Makes `owner` the controller of the object: its controller reference is set on creation and on every change.
    ///
    /// An object of the same name that `owner` does not control is left alone, and the closure does not run on it:
    /// otherwise an object that a user made would be deleted together with the owner. To adopt such an object, set its
    /// controller reference with [`modify`](Client::modify) first.
    ///
    /// The result is [`Error::Owner`] if the owner was never created, is in another namespace, or does not control the
    /// object.
    pub fn owned_by<O: TypedObject>(self, owner: &'a impl AsObject<O>) -> Self {
        self.owned_by_kind(owner, &Kind::of::<O>())
    }

    /// Makes `owner` of the kind `kind` the controller of the object, as [`owned_by`](Self::owned_by) does, for an
    /// owner with a Rust type that names no kind, such as `DynamicObject`.
    pub fn owned_by_kind<O: Object>(mut self, owner: &'a impl AsObject<O>, kind: &Kind) -> Self {
        let (owner, kind) = (owner.as_object(), kind.clone());
        self.set_owner = Some(Box::new(move |object| set_controller(owner, &kind, object)));
        self
    }

    /// Ensures the object and its status with the same closure, in at most two requests: a server changes a status only
    /// through its subresource.
    ///
    /// The closure runs once more on the created, updated or unchanged object, and its changes of the status are sent.
    /// A status in the initial object is not sent: set it in the closure. For a type without a status only the object
    /// is ensured.
    ///
    /// The outcome has the five cases of `controllerutil.CreateOrPatch` in controller-runtime:
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
    /// Those of [`ensure`](Client::ensure) and of [`status().modify`](crate::StatusClient::modify). If the write of the
    /// status fails, the write of the object has been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is finished even if this future is dropped, and no further request is sent; see
    /// [`Client`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn f(client: steersman_client::Client, desired: Deployment) -> Result<(), steersman_client::Error> {
    /// let ensured = client
    ///     .ensure(desired, |deployment| {
    ///         deployment.spec.get_or_insert_default().paused = Some(true);
    ///         deployment.status.get_or_insert_default().ready_replicas = Some(1);
    ///     })
    ///     .with_status()
    ///     .await?;
    /// println!("the status was changed: {}", ensured.is_status_changed);
    /// # Ok(()) }
    /// ```
    pub async fn with_status(mut self) -> Result<EnsuredWithStatus<K>, Error> {
        // This future is boxed, because it is large and would enlarge the future of every caller.
        let ensured = Box::pin(self.send(ChangedPart::WithoutStatus)).await?;
        let Client { shared, kinds } = self.client;
        let kind = kinds.kind_of();
        if !has_status(&kind, ensured.object())? {
            return Ok(EnsuredWithStatus::new(ensured, None));
        }
        let (object, lock) = (ensured.object(), shared.options().lock);
        let status = shared.change(&kind, object, lock, ChangedPart::Status, &mut self.mutate);
        let status = status.await?;
        Ok(EnsuredWithStatus::new(ensured, Some(status)))
    }

    async fn send(&mut self, part: ChangedPart) -> Result<Ensured<K>, Error> {
        let Self {
            initial,
            mutate,
            set_owner,
            ..
        } = self;
        // The reference is set before the create, so that an object that cannot be owned is not created.
        set_owner.as_ref().map_or(Ok(()), |set| set(initial))?;
        let mut refused = None;
        let mut own = |object: &mut K| {
            let set = set_owner.as_ref().map(|set| take(set, object));
            refused = set.and_then(Result::err);
            if refused.is_none() {
                mutate(object);
            }
        };
        let present = absent_is_none(self.client.read(&initial.key(), self.caller).await)?;
        let (shared, kind) = (&self.client.shared, self.client.kinds.kind_of());
        let ensured = shared.ensure(&kind, initial, present, part, &mut own).await;
        match refused {
            Some(refused) => Err(refused.into()),
            None => ensured,
        }
    }
}

impl<'a, S, K, F> IntoFuture for EnsureRequest<'a, S, K, F>
where
    S: KindSource<K>,
    K: Object,
    F: FnMut(&mut K) + Send + 'a,
{
    type Output = Result<Ensured<K>, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { self.send(ChangedPart::Object).await })
    }
}

/// Sets the controller reference. Refuses an existing object without a controller, because a user may have made it.
fn take<K: Object>(set_owner: &SetOwner<'_, K>, object: &mut K) -> Result<(), OwnerError> {
    if object.meta().uid.is_some() && controller_of(object.meta()).is_none() {
        return Err(OwnerError::NotControlled {
            object: object.key(),
        });
    }
    set_owner(object)
}
