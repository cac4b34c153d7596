//! Handle: the verbs of one kind that is a value: dynamic objects, and kinds known at runtime only.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use steersman_object::{Kind, Object, ObjectKey, Selection};

use crate::cached;
use crate::error::{Error, absent_is_none};
use crate::live::LiveKind;
use crate::route::{Route, route};
use crate::shared::Shared;
use crate::status::KindStatus;
use crate::subresource::Subresource;

mod writes;
mod changes;

/// The verbs of one kind: reads from the cache, writes to the server. Made by [`Client::of`](crate::Client::of).
///
/// This is the way of kinds that are known at runtime only, as `DynamicObject`s or as a type of one's own that
/// several kinds decode to. Of a kind that a Rust type names, [`Client`](crate::Client) has the same verbs, and says
/// more about each.
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

    /// The objects that `selection` selects, from the cache, in no particular order.
    ///
    /// # Errors
    ///
    /// As [`Client::list`](crate::Client::list).
    #[track_caller]
    pub fn list(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let placed = self.shared.place_selection(&self.kind, selection)?;
            match self.route() {
                Route::Cache => {
                    let reads = self.shared.cache().of::<K>(&self.kind);
                    let cached = || async { Ok(reads.list_at(&placed, caller).await?.items) };
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

    /// The status subresource.
    pub fn status(&self) -> KindStatus<K> {
        KindStatus::new(self.shared.clone(), self.kind.clone())
    }

    /// A subresource by its name.
    pub fn subresource(&self, name: impl Into<String>) -> Subresource<K> {
        Subresource::new(self.shared.clone(), self.kind.clone(), name)
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
                let cached = || reads.get_at(&key, caller);
                cached::get(&self.shared, &self.kind, &key, cached).await
            }
            Route::Live => Ok(Arc::new(self.live().get(&key).await?)),
        }
    }

    fn route(&self) -> Route {
        route(self.shared.cache().is_cached(&self.kind))
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
