//! Handle: the verbs of one kind that is a value: dynamic objects, and kinds known at runtime only.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use steersman_api::{DeleteOptions, ListOptions as Selection, Patch};
use steersman_cache::ListOptions;
use steersman_object::{Kind, Object, ObjectKey};

use crate::cached;
use crate::change::Part;
use crate::ensure::Ensured;
use crate::error::{Error, absent_is_none};
use crate::live::LiveKind;
use crate::route::{Route, route};
use crate::shared::Shared;
use crate::subresource::Subresource;

/// The verbs of one kind: reads from the cache, writes to the server. Made by [`Client::of`](crate::Client::of).
///
/// This is the way of kinds that are known at runtime only, as `DynamicObject`s or as a type of one's own that
/// several kinds decode to. Of a kind that a Rust type names, [`Client`](crate::Client) has the same verbs.
///
/// # Cancel safety
///
/// As that of the [`Client`](crate::Client).
#[must_use]
pub struct KindClient<K> {
    shared: Shared,
    kind: Kind,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> KindClient<K> {
    pub(crate) fn new(shared: Shared, kind: Kind) -> Self {
        Self {
            shared,
            kind,
            of: PhantomData,
        }
    }

    /// The kind it is about.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    // ===== reads =====

    /// The object, from the cache; of a kind that is declared uncached, from the server.
    ///
    /// # Errors
    ///
    /// As [`Client::get`](crate::Client::get).
    #[track_caller]
    pub fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.read(key, Location::caller())
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), except that an absent object is none.
    #[track_caller]
    pub fn get_opt(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.read(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// The objects that `options` select, from the cache, in no particular order.
    ///
    /// # Errors
    ///
    /// As [`Client::list`](crate::Client::list).
    #[track_caller]
    pub fn list(
        &self,
        options: &ListOptions,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let placed = self.shared.place_options(&self.kind, options)?;
            match self.route() {
                Route::Cache => {
                    let reads = self.shared.cache().of::<K>(&self.kind);
                    let cached = async { Ok(reads.list_at(&placed, caller).await?.items) };
                    cached::list(&self.shared, &self.kind, &placed, cached).await
                }
                Route::Live => {
                    let objects = self.live().list(&placed).await?;
                    Ok(objects.into_iter().map(Arc::new).collect())
                }
            }
        }
    }

    /// The reads that ask the server.
    pub fn live(&self) -> LiveKind<K> {
        LiveKind::new(self.shared.clone(), self.kind.clone())
    }

    async fn read(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        let key = self.shared.place(&self.kind, key)?;
        match self.route() {
            Route::Cache => {
                let reads = self.shared.cache().of::<K>(&self.kind);
                let cached = reads.get_at(&key, caller);
                cached::get(&self.shared, &self.kind, &key, cached).await
            }
            Route::Live => Ok(Arc::new(self.live().get(&key).await?)),
        }
    }

    fn route(&self) -> Route {
        route(self.shared.cache().is_cached(&self.kind))
    }

    // ===== writes =====

    /// Creates the object; answers it as the server stored it.
    ///
    /// # Errors
    ///
    /// As [`Client::create`](crate::Client::create).
    pub async fn create(&self, object: &K) -> Result<K, Error> {
        self.shared.create(&self.kind, object).await
    }

    /// Replaces the object by this one.
    ///
    /// # Errors
    ///
    /// As [`Client::update`](crate::Client::update).
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        self.shared.replace(&self.kind, object, Part::Object).await
    }

    /// Sends a patch; answers the object as the server stored it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<K, Error> {
        let key = self.shared.place(&self.kind, key)?;
        let options = self.shared.options().patch();
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.patch_request(&key, patch, &options)?;
        Ok(self.shared.door().write(&self.kind, request).await?)
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
        self.change(object, Part::Object, &mut mutate).await
    }

    /// Changes the status of this very object, as [`StatusClient::patch`](crate::StatusClient::patch).
    ///
    /// # Errors
    ///
    /// As [`StatusClient::patch`](crate::StatusClient::patch).
    pub async fn modify_status(
        &self,
        object: &K,
        mut mutate: impl FnMut(&mut K) + Send,
    ) -> Result<Ensured<K>, Error> {
        self.change(object, Part::Status, &mut mutate).await
    }

    /// Applies an object, or a part of one: anything that encodes as JSON with a name in its metadata.
    ///
    /// # Errors
    ///
    /// As [`Client::apply`](crate::Client::apply).
    pub async fn apply(&self, part: &(impl Serialize + Sync)) -> Result<K, Error> {
        self.shared.apply(&self.kind, part).await
    }

    /// Deletes this very object: one of its name with another uid is left alone.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`](crate::Client::delete).
    pub async fn delete(&self, object: &K) -> Result<(), Error> {
        let options = match object.uid_str() {
            "" => DeleteOptions::new(),
            uid => DeleteOptions::new().uid(uid),
        };
        self.delete_with(&object.key(), &options).await
    }

    /// Deletes by key, with options.
    ///
    /// # Errors
    ///
    /// As [`Client::delete_with`](crate::Client::delete_with).
    pub async fn delete_with(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), Error> {
        let key = self.shared.place(&self.kind, key)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.delete_request(&key, &options)?;
        let door = self.shared.door().dry(options.dry_run);
        door.write(&self.kind, request).await?;
        Ok(())
    }

    /// Deletes the objects that `selection` selects, in one request.
    ///
    /// # Errors
    ///
    /// As [`Client::delete_all`](crate::Client::delete_all).
    pub async fn delete_all(
        &self,
        namespace: Option<&str>,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Vec<ObjectKey>, Error> {
        let namespace = self.shared.place_list(&self.kind, namespace)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.delete_all_request(namespace, selection, &options)?;
        let door = self.shared.door().dry(options.dry_run);
        Ok(door.write(&self.kind, request).await?)
    }

    /// A subresource by its name.
    pub fn subresource(&self, name: impl Into<String>) -> Subresource<K> {
        Subresource::new(self.shared.clone(), self.kind.clone(), name)
    }

    async fn change(
        &self,
        object: &K,
        part: Part,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let lock = self.shared.options().lock;
        self.shared
            .change(&self.kind, object, lock, part, mutate)
            .await
    }
}

impl<K> Clone for KindClient<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            kind: self.kind.clone(),
            of: PhantomData,
        }
    }
}

impl<K> fmt::Debug for KindClient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindClient")
            .field("kind", &self.kind)
            .field("shared", &self.shared)
            .finish()
    }
}
