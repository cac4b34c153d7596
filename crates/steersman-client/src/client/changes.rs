//! Handle: changes by difference.

use std::future::Future;
use std::panic::Location;

use steersman_object::{Kind, TypedObject, WholeObject};

use super::Client;
use crate::ensure::Ensured;
use crate::error::Error;

/// Changes by difference: read, mutate a copy, send what differs.
///
/// # Cancel safety
///
/// What was sent is finished, whoever waits for it, and nothing is sent after it; see [`Client`].
impl Client {
    /// Creates the object, or changes the one that is there until `mutate` has nothing to change.
    ///
    /// The object is read from the cache. Where it is absent, `initial`, with `mutate` applied, is created.
    /// Where it is there, `mutate` is applied to a copy and the difference is sent as a merge patch; nothing
    /// is sent when there is none. The closure may run several times: it should set what its caller cares
    /// for, and leave the rest as it finds it. To replace a whole spec is to fight the server's defaults
    /// on every call.
    ///
    /// [`Ensured::Unchanged`] speaks of the object in the cache: what others changed on the server a moment
    /// ago may be on its way, and its event is what runs a reconciler again.
    ///
    /// # Errors
    ///
    /// [`Error::KeptChanging`] after a bounded number of conflicts, [`Error::Renamed`] when the closure changes
    /// name or namespace, and what a read or the server says.
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
    pub fn ensure<K: TypedObject + WholeObject<By>, By>(
        &self,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send {
        let caller = Location::caller();
        async move { self.typed().ensure_at(&initial, mutate, caller).await }
    }

    /// As [`ensure`](Self::ensure), for an object that `owner` controls: its controller reference is set
    /// along, on creation and on every change.
    ///
    /// An object of that name that `owner` does not control is left as it is, and `mutate` does not run
    /// on it: what users made must not be deleted along with an owner that came later. To adopt such an
    /// object, set its reference with [`modify`](Self::modify) first.
    ///
    /// # Errors
    ///
    /// [`Error::Owner`] where the owner was never created, is in another namespace, or is not the one who
    /// controls the object. Else as [`ensure`](Self::ensure).
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
    pub fn ensure_owned<O: TypedObject, K: TypedObject + WholeObject<By>, By>(
        &self,
        owner: &O,
        initial: K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let owner = (owner, &Kind::of::<O>());
            let kind = self.typed();
            kind.ensure_owned_at(owner, initial, mutate, caller).await
        }
    }

    /// Changes this very object; nothing is sent when `mutate` changes nothing.
    ///
    /// Starts from `object` as it was read: [`Ensured::Unchanged`] says that `mutate` had nothing to change in
    /// it, whatever the server has by now. One of its name with another uid is left alone.
    ///
    /// # Errors
    ///
    /// As [`ensure`](Self::ensure); [`is_not_found`](Error::is_not_found) where it is gone, or another has its name.
    pub async fn modify<K: TypedObject>(
        &self,
        object: &K,
        mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        self.typed().modify(object, mutate).await
    }

    /// Adds a finalizer, behind those that are there; nothing is sent when it is there.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn add_finalizer<K: TypedObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error> {
        self.typed().add_finalizer(object, finalizer).await
    }

    /// Removes a finalizer; nothing is sent when it is not there. An object that is being deleted and
    /// held by nothing else is gone afterwards.
    ///
    /// # Errors
    ///
    /// As [`modify`](Self::modify).
    pub async fn remove_finalizer<K: TypedObject>(
        &self,
        object: &K,
        finalizer: &str,
    ) -> Result<Ensured<K>, Error> {
        self.typed().remove_finalizer(object, finalizer).await
    }
}
