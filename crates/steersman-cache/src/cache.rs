//! Handle: runs the informers of a cache, and answers reads from memory.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use steersman_api::Connection;
use steersman_api::kube_client::core::PartialObjectMeta;
use steersman_object::{Kind, Object, ObjectKey, Selection, TypedObject};
use tokio_util::sync::CancellationToken;

use crate::coverage::check;
use crate::error::{Error, absent_is_none};
use crate::informer_entry::Declared;
use crate::options::CacheOptions;
use crate::reads::{Reads, get};
use crate::registry::Phase;
use crate::shared::{Running, Shared};
use crate::unsynced::{Trouble, Unsynced};

mod declaring;

/// One informer per kind and namespace, shared by all who read or watch. Cheap to clone.
///
/// # Examples
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{Cache, CacheOptions, Selection};
///
/// # async fn f(connection: steersman_api::Connection) -> Result<(), steersman_cache::Error> {
/// let cache = Cache::new(CacheOptions::new())?;
/// cache.index_field::<Pod>("spec.nodeName", |pod| pod.spec.as_ref()?.node_name.clone())?;
/// tokio::spawn(cache.run(connection, Default::default()));
/// cache.wait_for_sync().await?;
/// let here = Selection::new().index("spec.nodeName", "node-1");
/// println!("{} pods", cache.list::<Pod>(&here).await?.len());
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
}

/// A cache that counts as running; see [`Cache::begin`].
#[must_use = "dropping it stops the cache for good"]
pub struct Begun {
    run: Running,
}

impl Cache {
    /// A cache that holds nothing and does nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] where the options contradict themselves.
    pub fn new(options: CacheOptions) -> Result<Self, Error> {
        check(&options)?;
        Ok(Self {
            shared: Arc::new(Shared::new(options)),
        })
    }

    // ===== reading =====

    /// Reads of a kind as any type: of one known only at runtime as
    /// [`DynamicObject`](steersman_api::kube_client::core::DynamicObject)s, or as a type that
    /// decodes no more than it needs. Asks nothing and declares nothing.
    #[must_use]
    pub fn of<K: Object>(&self, kind: &Kind) -> Reads<K> {
        Reads::new(Arc::clone(&self.shared), self.shared.coverage(kind))
    }

    /// Reads of the metadata of the kind `K`. As long as nobody reads or watches more of it, the
    /// server is asked for metadata alone.
    #[must_use]
    pub fn metadata<K: TypedObject>(&self) -> Reads<PartialObjectMeta<K>> {
        Reads::new(Arc::clone(&self.shared), self.shared.coverage_of::<K>())
    }

    /// Reads of the kind `K`.
    #[must_use]
    pub fn typed<K: TypedObject>(&self) -> Reads<K> {
        Reads::new(Arc::clone(&self.shared), self.shared.coverage_of::<K>())
    }

    /// The object, shared. Waits for the kind's first sync.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Malformed`]; at once, what keeps the kind from being read ([`Error::Unavailable`] while it never
    /// synced, [`Error::OutsideScope`], [`Error::MustBeDeclared`], [`Error::NotStarted`] and the like);
    /// [`Error::SyncTimeout`]; [`Error::Stopped`] once the cache has stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. An informer that the read started goes on.
    #[track_caller]
    pub fn get<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.get_at(key, Location::caller())
    }

    /// Reads for the code at `caller`.
    async fn get_at<K: TypedObject>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        if let Some(found) = self.shared.typed_at_hand(key) {
            return Ok(found);
        }
        let coverage = self.shared.coverage_of::<K>();
        // Larger than a read that finds its object at hand should carry along.
        Box::pin(get(&self.shared, &coverage, key, caller)).await
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), except that an absent object is none.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn get_opt<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.get::<K>(key);
        async move { absent_is_none(read.await) }
    }

    /// The objects that `selection` selects, shared, in no particular order.
    ///
    /// Of a kind cached in several namespaces, each one's objects are of one version; together they may not
    /// be.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`Error::NoIndex`]. [`Error::Malformed`] names an object that does not decode
    /// and was never read: it may fall under the selection, as nothing but its namespace is known (`CACHE-4`).
    /// [`Selection::skip_malformed`] leaves such objects out.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn list<K: TypedObject>(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        self.list_at(selection, Location::caller())
    }

    /// Lists for the code at `caller`.
    async fn list_at<K: TypedObject>(
        &self,
        selection: &Selection,
        caller: &'static Location<'static>,
    ) -> Result<Vec<Arc<K>>, Error> {
        let listed = self.typed::<K>().list_at(selection, caller).await?;
        Ok(listed.items)
    }

    // ===== asking =====

    /// Whether the other handle is of the same cache.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether reads of the kind are answered from memory; false where the options say `uncached`.
    #[must_use]
    pub fn is_cached(&self, kind: &Kind) -> bool {
        self.shared.is_cached(&self.shared.coverage(kind))
    }

    /// The selectors under which the kind is cached, where there are any: they may hide objects.
    #[must_use]
    pub fn scoped_by(&self, kind: &Kind) -> Option<String> {
        self.shared.coverage(kind).scoped_by()
    }

    /// The name of the transform that the kind is cached through, where there is one: what the cache
    /// holds is not what the server has, and must not be written back as a whole.
    #[must_use]
    pub fn transformed(&self, kind: &Kind) -> Option<String> {
        self.shared.coverage(kind).transformed()
    }

    /// Every informer of the kind that was declared and has not synced, and why.
    #[must_use]
    pub fn unsynced(&self, kind: &Kind) -> Vec<Unsynced> {
        let mut unsynced = self.all_unsynced();
        unsynced.retain(|u| u.kind == *kind);
        unsynced
    }

    /// Every informer that was declared and has not synced, and why.
    #[must_use]
    pub fn all_unsynced(&self) -> Vec<Unsynced> {
        let entries = self.shared.registry.read().entries();
        entries
            .iter()
            .filter(|e| !e.has_synced())
            .map(Declared::unsynced)
            .collect()
    }

    /// Every informer that does not follow its server at the moment, and why: those whose requests fail,
    /// also where they had synced before, those that have stopped, and of the declared ones those without a
    /// first sync.
    #[must_use]
    pub fn trouble(&self) -> Vec<Trouble> {
        let entries = self.shared.registry.read().entries();
        entries.iter().filter_map(Declared::trouble).collect()
    }

    // ===== running =====

    /// Starts every declared informer, and those declared later; ends when `cancel` fires and all of them
    /// have stopped.
    ///
    /// The cache counts as running from the call on; it does so while the future is awaited.
    ///
    /// A kind that cannot be listed keeps nobody waiting but its own readers (`CACHE-2`).
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRan`], [`Error::Connection`], and [`Error::Panicked`] when an informer panicked, which ends
    /// them all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the informers.
    pub fn run(
        &self,
        connection: Connection,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        // From the call on, so that a read right after it waits instead of finding nothing started.
        let begun = self.begin();
        async move { begun?.run(connection, cancel).await }
    }

    /// Marks the cache as running, for those who start it later: reads wait from now on until what they ask
    /// for has synced, instead of failing with [`Error::NotStarted`].
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRan`].
    pub fn begin(&self) -> Result<Begun, Error> {
        let run = Shared::begin(&self.shared).ok_or(Error::AlreadyRan)?;
        Ok(Begun { run })
    }

    /// Waits until the cache runs and every informer known by then has synced.
    ///
    /// # Errors
    ///
    /// [`Error::SyncTimeout`] names every kind that did not sync in time, why, and the way out;
    /// [`Error::Stopped`] where the cache has stopped, though they had synced before (`CACHE-10`).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: only this call stops waiting, the informers go on.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        let known = self
            .shared
            .every(|entry| async move { entry.synced().await });
        let Some(known) = known.await else {
            return Err(self.not_in_time(self.all_unsynced()));
        };
        let mut known = known.iter().filter(|e| !e.is_removed()).peekable();
        if let Some(first) = known.peek()
            && self.shared.registry.read().phase() == Phase::Stopped
        {
            let kind = first.kind().clone();
            return Err(Error::Stopped { kind });
        }
        let unsynced: Vec<Unsynced> = known
            .filter(|e| !e.has_synced())
            .map(Declared::unsynced)
            .collect();
        match unsynced.is_empty() {
            true => Ok(()),
            false => Err(self.not_in_time(unsynced)),
        }
    }

    fn not_in_time(&self, unsynced: Vec<Unsynced>) -> Error {
        let timeout = self.shared.options.sync_timeout;
        Error::SyncTimeout { timeout, unsynced }
    }

    /// Waits until the cache runs and every informer known by then has synced or can say why it
    /// has not; at most as long as [`wait_for_sync`](Self::wait_for_sync).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`wait_for_sync`](Self::wait_for_sync).
    pub async fn settled(&self) {
        self.shared
            .every(|entry| async move { entry.settled().await })
            .await;
    }
}

impl Begun {
    /// As [`Cache::run`].
    ///
    /// # Errors
    ///
    /// As [`Cache::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::run`].
    pub async fn run(self, connection: Connection, cancel: CancellationToken) -> Result<(), Error> {
        self.run.until(connection, &cancel).await
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("options", &self.shared.options)
            .field("registry", &*self.shared.registry.read())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}
