//! Handle: typed verbs: reads from the cache, writes to the server.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use steersman_api::{Connection, DeleteOptions, Patch};
use steersman_cache::{Cache, ListOptions};
use steersman_object::{Kind, ObjectKey, TypedObject};

use crate::change::Part;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::finalizer;
use crate::live::Live;
use crate::options::{ClientOptions, Lock};
use crate::owner::{OwnerError, controller_of, set_controller_reference};
use crate::route::{Route, route};
use crate::shared::Shared;
use crate::status::StatusClient;

/// Reads from the cache and writes to the api-server. Cheap to clone.
///
/// Making one does no I/O. Its connection to the server opens with the first request, in the runtime that
/// makes it.
///
/// # Cancel safety
///
/// A read is cancel safe. A write whose future is dropped before the answer may have been done or not: the
/// server is not told. `ensure`, `modify` and the finalizers ask more than once where they have to; what was
/// answered by then stands. All of them may simply be called again.
#[derive(Clone, Debug)]
#[must_use]
pub struct Client {
    shared: Shared,
}

impl Client {
    /// A client over a cache and a connection to the same server.
    pub fn new(cache: Cache, connection: Connection) -> Self {
        Self::with_options(cache, connection, ClientOptions::new())
    }

    /// As [`new`](Self::new), with options.
    pub fn with_options(cache: Cache, connection: Connection, options: ClientOptions) -> Self {
        Self {
            shared: Shared::new(cache, connection, options),
        }
    }

    /// The same client, signing its writes with another field manager.
    pub fn with_field_manager(&self, name: impl Into<String>) -> Self {
        let options = ClientOptions::clone(self.shared.options()).field_manager(name);
        Self {
            shared: self.shared.with_options(options),
        }
    }

    /// The cache it reads from.
    pub fn cache(&self) -> &Cache {
        self.shared.cache()
    }

    /// The server it writes to.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.shared.connection()
    }

    // ===== reads =====

    /// The object, from the cache.
    ///
    /// Waits for the kind's first sync. Of a kind that is declared uncached, the server is asked.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where the object is absent, or a selector of the cache hides it
    /// ([`scoped_by`](Error::scoped_by)); and everything [`steersman_cache::Error`] lists.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    #[track_caller]
    pub fn get<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.read(key, Location::caller())
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), except that an absent object is none.
    #[track_caller]
    pub fn get_opt<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.read(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// The objects of a kind that `options` select, from the cache, in no particular order.
    ///
    /// # Errors
    ///
    /// Everything [`steersman_cache::Error`] lists; of an uncached kind, what the server says.
    #[track_caller]
    pub fn list<K: TypedObject>(
        &self,
        options: &ListOptions,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        let cached = self.cache().list::<K>(options);
        async move {
            match self.route::<K>() {
                Route::Cache => Ok(cached.await?),
                Route::Live => {
                    let objects = self.live().list::<K>(options).await?;
                    Ok(objects.into_iter().map(Arc::new).collect())
                }
            }
        }
    }

    /// A reader that asks the server.
    pub fn live(&self) -> Live {
        Live::new(self.shared.clone())
    }

    // ===== writes =====

    /// Creates the object; answers it as the server stored it.
    ///
    /// # Errors
    ///
    /// [`is_already_exists`](Error::is_already_exists) where there is one of its name; this says so where the
    /// cache's selectors hide it. Else what the server says.
    pub async fn create<K: TypedObject>(&self, object: &K) -> Result<K, Error> {
        let created = self
            .shared
            .api::<K>()
            .await?
            .create(object, &self.shared.options().write())
            .await;
        created.map_err(|source| {
            let kind = Kind::of::<K>();
            match self.cache().scoped_by(&kind) {
                Some(scoped_by) if source.is_already_exists() => Error::Hidden {
                    key: object.key(),
                    kind,
                    scoped_by,
                    source: Box::new(source),
                },
                _ => Error::Api(source),
            }
        })
    }

    /// Replaces the object by this one, refused when it changed since it was read.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] where it has no resource version, [`is_conflict`](Error::is_conflict) where that
    /// is not the newest, [`is_not_found`](Error::is_not_found) where it is gone or another has its name. Else what
    /// the server says.
    pub async fn update<K: TypedObject>(&self, object: &K) -> Result<K, Error> {
        self.shared.replace(object, Part::Object).await
    }

    /// Sends a patch; answers the object as the server stored it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn patch<K: TypedObject>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, Error> {
        Ok(self
            .shared
            .api::<K>()
            .await?
            .patch(key, patch, &self.shared.options().patch())
            .await?)
    }

    /// Deletes this very object: one of its name with another uid is left alone.
    ///
    /// The object is gone when this returns, unless finalizers hold it.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where it is gone; a conflict where another has its name.
    pub async fn delete<K: TypedObject>(&self, object: &K) -> Result<(), Error> {
        let options = match object.uid_str() {
            "" => DeleteOptions::new(),
            uid => DeleteOptions::new().uid(uid),
        };
        self.delete_with::<K>(&object.key(), &options).await
    }

    /// Deletes whatever object has this key.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where there is none.
    pub async fn delete_key<K: TypedObject>(&self, key: &ObjectKey) -> Result<(), Error> {
        self.delete_with::<K>(key, &DeleteOptions::new()).await
    }

    /// Deletes by key, with options.
    ///
    /// # Errors
    ///
    /// As [`delete_key`](Self::delete_key); a conflict where a precondition does not hold.
    pub async fn delete_with<K: TypedObject>(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        self.shared.api::<K>().await?.delete(key, options).await?;
        Ok(())
    }

    // ===== changes by difference =====

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
    pub fn ensure<K: TypedObject>(
        &self,
        initial: K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let present = absent_is_none(self.read::<K>(&initial.key(), caller).await)?;
            self.shared.ensure(&initial, present, &mut mutate).await
        }
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
    pub async fn ensure_owned<O: TypedObject, K: TypedObject>(
        &self,
        owner: &O,
        mut initial: K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        // Nothing is created that could not be owned.
        set_controller_reference(owner, &mut initial)?;
        let mut refused = None;
        let ensured = self
            .ensure(initial, |object: &mut K| {
                let uncontrolled = controller_of(object.meta()).is_none();
                refused = if object.meta().uid.is_some() && uncontrolled {
                    Some(OwnerError::NotControlled {
                        object: object.key(),
                    })
                } else {
                    set_controller_reference(owner, object).err()
                };
                if refused.is_none() {
                    mutate(object);
                }
            })
            .await;
        match refused {
            Some(refused) => Err(refused.into()),
            None => ensured,
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
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        let lock = self.shared.options().lock;
        self.shared
            .change(object, lock, Part::Object, &mut mutate)
            .await
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
        let mut add = |object: &mut K| {
            finalizer::add(object, finalizer);
        };
        self.shared
            .change(object, Lock::Always, Part::Object, &mut add)
            .await
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
        let mut remove = |object: &mut K| {
            finalizer::remove(object, finalizer);
        };
        self.shared
            .change(object, Lock::Always, Part::Object, &mut remove)
            .await
    }

    /// The status subresource.
    pub fn status(&self) -> StatusClient {
        StatusClient::new(self.shared.clone())
    }

    // ===== the way of a read =====

    async fn read<K: TypedObject>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        match self.route::<K>() {
            Route::Cache => Ok(self.cache().get_at::<K>(key, caller).await?),
            Route::Live => Ok(Arc::new(self.live().get::<K>(key).await?)),
        }
    }

    fn route<K: TypedObject>(&self) -> Route {
        route(self.cache().caches::<K>())
    }
}

fn absent_is_none<K>(read: Result<Arc<K>, Error>) -> Result<Option<Arc<K>>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
