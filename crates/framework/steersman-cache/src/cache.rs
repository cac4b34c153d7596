//! Handle: runs the informers of a cache, and serves reads from memory.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use steersman_api::ClientConfig;
use steersman_api::kube_client::core::PartialObjectMeta;
use steersman_object::{Gvk, Kind, ListOptions, Object, ObjectKey, TypedObject};
use tokio_util::sync::CancellationToken;

use crate::coverage::check;
use crate::error::{Error, absent_is_none};
use crate::informer_entry::InformerEntry;
use crate::informer_map::CachePhase;
use crate::options::CacheOptions;
use crate::reads::{Reads, get};
use crate::shared::SharedCache;
pub use crate::shared::StartedCache;
use crate::unsynced::{InformerFailure, InformerReport, Unsynced};

mod declaring;
mod namespaces;

/// A cache with one informer per kind and namespace, shared by all readers and watchers. Cheap to clone.
///
/// # Examples
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{Cache, CacheOptions, ListOptions};
///
/// # async fn f(connection: steersman_api::ClientConfig) -> Result<(), steersman_cache::Error> {
/// let cache = Cache::new(CacheOptions::new())?;
/// cache.index_field::<Pod>("spec.nodeName", |pod| pod.spec.as_ref()?.node_name.clone())?;
/// tokio::spawn(cache.run(connection, Default::default()));
/// cache.wait_for_sync().await?;
/// let here = ListOptions::new().index("spec.nodeName", "node-1");
/// println!("{} pods", cache.list::<Pod>(&here).await?.len());
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// A read is cancel safe: an informer that the read started continues.
#[derive(Clone, derive_more::Debug)]
#[debug("Cache {{ options: {:?}, registry: {:?}, .. }}", shared.options, *shared.registry.read())]
#[must_use]
pub struct Cache {
    pub(crate) shared: Arc<SharedCache>,
}

impl Cache {
    /// Creates a cache without informers. Does no I/O.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] or [`Error::DefaultOptions`] if the options contradict themselves.
    pub fn new(options: CacheOptions) -> Result<Self, Error> {
        check(&options)?;
        Ok(Self {
            shared: Arc::new(SharedCache::new(options)),
        })
    }

    /// Returns a handle for reads of a kind as any type: for example
    /// [`DynamicObject`](steersman_api::kube_client::core::DynamicObject) for a kind known only at runtime, or a type
    /// with only the needed fields. Sends no request and declares nothing.
    pub fn of<K: Object>(&self, kind: &Kind) -> Reads<K> {
        Reads::new(Arc::clone(&self.shared), |shared| shared.coverage(kind))
    }

    /// Returns a handle for reads of the metadata of the kind `K`. The informer requests only metadata, until a reader
    /// or watcher of the kind needs whole objects.
    pub fn metadata<K: TypedObject>(&self) -> Reads<PartialObjectMeta<K>> {
        Reads::new(Arc::clone(&self.shared), SharedCache::coverage_of::<K>)
    }

    /// Returns a handle that reads the objects of the kind of the Rust type `K`, decoded as `K`.
    pub fn typed<K: TypedObject>(&self) -> Reads<K> {
        Reads::new(Arc::clone(&self.shared), SharedCache::coverage_of::<K>)
    }

    /// Returns the object from memory, shared in an `Arc`. Waits for the first sync of the kind.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Malformed`]; without a wait, the reason why the kind cannot be
    /// read ([`Error::Unavailable`] if it never synced, [`Error::OutsideScope`], [`Error::ForeignSlot`],
    /// [`Error::MustBeDeclared`], [`Error::NotStarted`] and similar); [`Error::SyncTimeout`];
    /// [`Error::Stopped`] after the cache has stopped.
    #[track_caller]
    pub fn get<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        let caller = Location::caller();
        async move {
            if let Some(found) = self.shared.typed_decoded(key) {
                return Ok(found);
            }
            let coverage = self.shared.coverage_of::<K>();
            // The future of the slow path is boxed, because it is large, and most reads find the object decoded.
            Box::pin(get(&self.shared, &coverage, key, caller)).await
        }
    }

    /// Returns the object like [`get`](Self::get), or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get), except [`Error::NotFound`].
    #[track_caller]
    pub fn get_opt<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.get::<K>(key);
        async move { absent_is_none(read.await) }
    }

    /// Returns the selected objects from memory, each shared in an `Arc`, in no particular order.
    ///
    /// If several informers cache the kind, the objects of each informer are of one resource
    /// version, but the versions of two informers may differ. A cache with [`CacheOptions::shards`] returns the selected
    /// objects of the slots that it holds.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::NoIndex`]. [`Error::Malformed`] names an object that has never
    /// decoded: only its namespace is known, so the list options may select it (CACHE-4).
    /// [`ListOptions::skip_malformed`] omits such objects.
    #[track_caller]
    pub fn list<K: TypedObject>(
        &self,
        list_options: &ListOptions,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let listed = self.typed::<K>().list_at(list_options, caller).await?;
            Ok(listed.items)
        }
    }

    /// Returns whether both handles belong to the same cache.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns whether reads of the kind are served from memory; false if the options declare the kind
    /// [`uncached`](crate::ByObject::uncached).
    pub fn is_cached(&self, kind: &Kind) -> bool {
        self.shared.is_cached(&self.shared.coverage(kind))
    }

    /// Returns the selectors under which the kind is cached, as text; `None` without selectors. Selectors may exclude
    /// objects that exist on the server.
    pub fn scoped_by(&self, kind: &Kind) -> Option<String> {
        self.shared.coverage(kind).scoped_by()
    }

    /// Returns the name of the kind's transform; `None` without a transform. A transformed object must not replace the
    /// object on the server, because it may lack fields.
    pub fn transformed(&self, kind: &Kind) -> Option<String> {
        self.shared.coverage(kind).transformed()
    }

    /// Returns a report on every informer of the kind that is declared or was started by a read, and has not synced.
    pub fn unsynced(&self, kind: &Kind) -> Vec<Unsynced> {
        let mut unsynced = self.all_unsynced();
        unsynced.retain(|u| u.kind == *kind);
        unsynced
    }

    /// Returns a report on every informer that is declared or was started by a read, and has not synced.
    pub fn all_unsynced(&self) -> Vec<Unsynced> {
        let entries = self.shared.registry.read().entries();
        let late = entries.iter().filter(|e| !e.has_synced());
        late.map(InformerEntry::unsynced).collect()
    }

    /// Returns a report on every informer that does not follow its server at the moment: its requests fail (even if it
    /// had synced before), it has stopped, or it is declared and has not had its first sync.
    pub fn informer_failures(&self) -> Vec<InformerFailure> {
        let entries = self.shared.registry.read().entries();
        entries.iter().filter_map(InformerEntry::failure).collect()
    }

    /// Returns a report on every informer, declared or started by a read, in no particular order.
    pub fn informer_reports(&self) -> Vec<InformerReport> {
        let entries = self.shared.registry.read().entries();
        entries.iter().map(InformerEntry::report).collect()
    }

    /// Lists the objects of a kind again, although its watches work. Returns when each informer of the
    /// kind has the complete result of a list that began after this call, or has stopped.
    ///
    /// Use this method after a change of a definition: the objects of its kind get another form without new versions. A
    /// server ends the watches of such a kind, and the informers list again, but only after a while.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the list.
    pub async fn relist(&self, gvk: &Gvk) {
        let entries = self.shared.registry.read().of_kind(gvk);
        let relists: Vec<_> = entries.iter().map(|one| one.untyped().relist()).collect();
        for relist in relists {
            relist.await;
        }
    }

    /// Starts every declared informer, and informers declared later. Ends when `cancel` fires and
    /// all informers have stopped.
    ///
    /// The cache counts as running from the call on, before the returned future is polled.
    ///
    /// A kind that cannot be listed delays only its own readers (CACHE-2).
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRan`], [`Error::Connection`], and [`Error::Panicked`]: the panic of one informer stops all
    /// informers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the cache for good.
    pub fn run(
        &self,
        client_config: ClientConfig,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        // The run begins before the future is polled, so that a read right after the call waits and does not fail.
        let begun = self.begin();
        async move { begun?.run(client_config, cancel).await }
    }

    /// Marks the cache as running without starting informers: from now on reads wait for a sync
    /// instead of failing with [`Error::NotStarted`].
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRan`].
    pub fn begin(&self) -> Result<StartedCache, Error> {
        StartedCache::begin(&self.shared).ok_or(Error::AlreadyRan)
    }

    /// Waits until the cache runs and every informer that exists at that moment has synced.
    ///
    /// # Errors
    ///
    /// [`Error::SyncTimeout`] names every kind that did not sync in time, the reason and the
    /// remedy; [`Error::Stopped`] if the cache has stopped, even if all kinds had synced before
    /// (CACHE-10).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The informers continue.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        let known = self
            .shared
            .wait_for_all(|entry| async move { entry.synced().await });
        let Some(known) = known.await else {
            return Err(self.not_in_time(self.all_unsynced()));
        };
        let mut known = known.iter().filter(|e| !e.is_removed()).peekable();
        if let Some(first) = known.peek()
            && self.shared.registry.read().phase == CachePhase::Stopped
        {
            let kind = first.kind().clone();
            return Err(Error::Stopped { kind });
        }
        let late = known.filter(|e| !e.has_synced());
        let unsynced: Vec<Unsynced> = late.map(InformerEntry::unsynced).collect();
        match unsynced.is_empty() {
            true => Ok(()),
            false => Err(self.not_in_time(unsynced)),
        }
    }

    fn not_in_time(&self, unsynced: Vec<Unsynced>) -> Error {
        let timeout = self.shared.options.sync_timeout;
        Error::SyncTimeout { timeout, unsynced }
    }

    /// Waits until the cache runs and every informer that exists at that moment has synced or fails with a known
    /// reason. Waits no longer than [`wait_for_sync`](Self::wait_for_sync).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`wait_for_sync`](Self::wait_for_sync).
    pub async fn settled(&self) {
        self.shared
            .wait_for_all(|entry| async move { entry.settled().await })
            .await;
    }
}
