//! Handle: reads the objects of one kind as one type.

use std::any::type_name;
use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use steersman_api::Malformed;
use steersman_informer::{Informer, Subscription, UncachedObject};
use steersman_object::{Kind, ListOptions, Object, ObjectKey, ResourceVersion};
use tokio::task::coop;

use crate::coverage::Coverage;
use crate::error::{Error, absent_is_none};
use crate::listed::{Listed, Versions};
use crate::metrics::Verb;
use crate::shared::{NamespacedInformer, SharedCache};

/// Reads of one kind as `K`: `DynamicObject` for a kind known only at runtime, metadata, or a type of the caller. Cheap
/// to clone.
///
/// Created by [`Cache::of`](crate::Cache::of), [`Cache::typed`](crate::Cache::typed) and
/// [`Cache::metadata`](crate::Cache::metadata). All reads of a kind share its informers, whatever their type.
///
/// # Cancel safety
///
/// Every read is cancel safe: an informer that the read started continues.
#[derive(Clone, derive_more::Debug)]
#[debug("Reads {{ kind: {:?}, .. }}", coverage.kind())]
pub struct Reads<K> {
    shared: Arc<SharedCache>,
    coverage: Arc<Coverage>,
    /// The number of changes of the cached namespaces before `coverage` was read; a later change makes it outdated.
    as_of: u64,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Reads<K> {
    pub(crate) fn new(
        shared: Arc<SharedCache>,
        coverage: impl FnOnce(&SharedCache) -> Arc<Coverage>,
    ) -> Self {
        // The number of changes is read before the coverage, so that a change in between makes the coverage outdated.
        let as_of = shared.scope.changes();
        Self {
            coverage: coverage(&shared),
            shared,
            as_of,
            of: PhantomData,
        }
    }

    /// Returns which informers the kind has with the present namespaces of the cache (CACHE-17).
    fn coverage(&self) -> Cow<'_, Arc<Coverage>> {
        if self.shared.scope.changes() == self.as_of {
            Cow::Borrowed(&self.coverage)
        } else {
            Cow::Owned(self.shared.coverage(self.coverage.kind()))
        }
    }

    /// Returns the kind of the objects that this handle reads.
    pub fn kind(&self) -> &Kind {
        self.coverage.kind()
    }

    /// Returns whether reads of the kind are served from memory; false if the options declare the kind `uncached`.
    pub fn is_cached(&self) -> bool {
        self.shared.is_cached(&self.coverage)
    }

    /// Returns the informers of the kind and declares it, like [`Cache::informers`](crate::Cache::informers).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn informers(&self) -> Result<Vec<Informer<K>>, Error> {
        let informers = self.shared.declare_in_each_namespace(self.kind())?;
        let informers = informers.iter().map(NamespacedInformer::informer);
        Ok(informers.cloned().collect())
    }

    /// Subscribes to each informer of the kind. Unlike [`informers`](Self::informers) this declares
    /// nothing: informers of an undeclared kind end after their linger time
    /// ([`CacheOptions::linger`](crate::CacheOptions::linger)) once all subscriptions are dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`Cache::get`](crate::Cache::get) that concern the kind; [`Error::Stopped`].
    #[track_caller]
    pub fn subscribe(&self) -> Result<Vec<Subscription<K>>, Error> {
        let caller = Location::caller();
        let mut subscriptions = Vec::new();
        let coverage = self.coverage();
        for namespace in coverage.informers() {
            let subscription = self.shared.subscribe(&coverage, namespace, caller)?;
            subscriptions.push(subscription);
        }
        Ok(subscriptions)
    }

    /// Returns the object from memory, shared in an `Arc`, like [`Cache::get`](crate::Cache::get).
    ///
    /// # Errors
    ///
    /// Those of [`Cache::get`](crate::Cache::get).
    #[track_caller]
    pub fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.get_at(key, Location::caller())
    }

    /// Returns the object like [`get`](Self::get). The warning about undeclared informers names `caller`, the code of
    /// the read.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get).
    #[doc(hidden)]
    pub async fn get_at(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        let coverage = self.coverage();
        if let Some(found) = self.shared.decoded(&coverage, key) {
            return Ok(found);
        }
        Box::pin(get(&self.shared, &coverage, key, caller)).await
    }

    /// Returns the object like [`get_opt`](Self::get_opt), with the resource version of the
    /// informer. An absent object was absent at that version.
    ///
    /// # Errors
    ///
    /// Those of [`get_opt`](Self::get_opt).
    #[track_caller]
    pub fn get_with_version(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<(Option<Arc<K>>, ResourceVersion), Error>> + Send {
        let caller = Location::caller();
        async move {
            let namespace = self.coverage().informer_for(key)?;
            let informer = self.informer(namespace, Some(Verb::Get), caller).await?;
            let (store, key) = (informer.as_store(), key.placed(self.kind()));
            let (shared, coverage) = (&self.shared, self.coverage());
            let (mut found, mut version) = store.get_with_version(&key);
            if matches!(found, Ok(None))
                && shared.has_arrived(&coverage, informer.untyped(), &key)?
            {
                (found, version) = store.get_with_version(&key);
            }
            let found = found.map_err(|problem| self.malformed(problem))?;
            Ok((found, version))
        }
    }

    /// Returns the object like [`get`](Self::get), or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Self::get), except [`Error::NotFound`].
    #[track_caller]
    pub fn get_opt(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.get_at(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// Returns the selected objects, each shared in an `Arc`, with the resource version of each informer.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::list`](crate::Cache::list).
    #[track_caller]
    pub fn list(
        &self,
        list_options: &ListOptions,
    ) -> impl Future<Output = Result<Listed<K>, Error>> + Send {
        self.list_at(list_options, Location::caller())
    }

    /// Lists like [`list`](Self::list). The warning about undeclared informers names `caller`, the code of the read.
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list).
    #[doc(hidden)]
    pub async fn list_at(
        &self,
        list_options: &ListOptions,
        caller: &'static Location<'static>,
    ) -> Result<Listed<K>, Error> {
        let (mut items, mut versions) = (Vec::new(), Versions::new());
        let mut query = self.placed(list_options)?;
        // The list counts as one read in the metrics, even if it reads several informers.
        let mut verb = Some(Verb::List);
        let namespace = list_options.selected_namespace();
        let namespaces = self.coverage().informers_for(namespace)?;
        for namespace in namespaces {
            let informer = self.informer(namespace.clone(), verb.take(), caller).await;
            let Some(informer) = self.unless_left(list_options, &namespace, informer)? else {
                continue;
            };
            let found = informer.as_store().list_lazily(&query);
            let mut found = found.map_err(|_| self.unknown_index(&informer, &query))?;
            // CACHE-12: a read that decodes many objects yields to other tasks between objects.
            while found.decode_next() {
                coop::consume_budget().await;
            }
            let found = found.end();
            // CACHE-4: an object that does not decode is an error, unless the caller skips such objects.
            if let Some(malformed) = found.unreadable.filter(|_| !list_options.skips_malformed()) {
                return Err(self.malformed(malformed));
            }
            query = query.reduce_limit(found.objects.len());
            if items.is_empty() {
                items = found.objects;
            } else {
                items.extend(found.objects);
            }
            versions.push((namespace, found.version));
        }
        Ok(Listed { items, versions })
    }

    /// Calls `f` with each selected object without collecting the objects, and returns the resource versions of the
    /// informers. If the kind has no view (typed handle that keeps objects decoded) as `K`, creates none: each object
    /// is decoded for its call and then dropped. (Reads, subscriptions and list options with an index create a view.)
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list). An error about an object that does not decode may come after
    /// calls of `f` with other objects.
    #[track_caller]
    pub fn for_each(
        &self,
        list_options: &ListOptions,
        mut f: impl FnMut(&K) + Send,
    ) -> impl Future<Output = Result<Versions, Error>> + Send {
        let caller = Location::caller();
        async move {
            let (objects, versions) = self.unread(list_options, caller).await?;
            for object in objects {
                match object.read() {
                    Ok(object) => f(&object),
                    Err(_) if list_options.skips_malformed() => {}
                    // CACHE-4: an object that does not decode is an error.
                    Err(malformed) => return Err(self.malformed(malformed)),
                }
                // CACHE-12: a pass over many objects yields to other tasks.
                coop::consume_budget().await;
            }
            Ok(versions)
        }
    }

    /// Returns the keys of the selected objects. Decodes nothing: if the kind was never read as `K`, the result
    /// includes keys of objects that would not decode as `K`.
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list).
    #[track_caller]
    pub fn keys(
        &self,
        list_options: &ListOptions,
    ) -> impl Future<Output = Result<Vec<ObjectKey>, Error>> + Send {
        let read = self.keys_at(list_options, Location::caller());
        async move { Ok(read.await?.0) }
    }

    /// Returns the keys like [`keys`](Self::keys), with the resource version of each informer.
    ///
    /// # Errors
    ///
    /// Those of [`keys`](Self::keys).
    #[track_caller]
    pub fn keys_with_versions(
        &self,
        list_options: &ListOptions,
    ) -> impl Future<Output = Result<(Vec<ObjectKey>, Versions), Error>> + Send {
        self.keys_at(list_options, Location::caller())
    }

    /// Returns the distinct values of an index in sorted order. Decodes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list).
    #[track_caller]
    pub fn index_values(
        &self,
        index: &str,
    ) -> impl Future<Output = Result<Vec<Arc<str>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let (mut values, mut verb) = (Vec::new(), Some(Verb::List));
            for namespace in self.coverage().informers() {
                let informer = self.informer(namespace.clone(), verb.take(), caller);
                let informer = self.unless_left(&ListOptions::new(), &namespace, informer.await);
                let Some(informer) = informer? else { continue };
                let found = informer.as_store().index_values(index);
                let found = found.map_err(|_| self.no_index(index))?;
                values.extend(found.into_iter().map(|found| found.value));
            }
            values.sort_unstable();
            values.dedup();
            Ok(values)
        }
    }

    async fn keys_at(
        &self,
        list_options: &ListOptions,
        caller: &'static Location<'static>,
    ) -> Result<(Vec<ObjectKey>, Versions), Error> {
        let (objects, versions) = self.unread(list_options, caller).await?;
        let keys = objects.iter().map(|object| object.key().clone());
        Ok((keys.collect(), versions))
    }

    /// Returns the typed handle of a namespace's informer after its first sync. Counts the read as `verb`.
    fn informer(
        &self,
        namespace: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Informer<K>, Error>> + Send {
        self.shared
            .readable(&self.coverage, namespace, verb, caller)
    }

    /// Selects objects and returns them undecoded, with the resource version of each informer.
    async fn unread(
        &self,
        list_options: &ListOptions,
        caller: &'static Location<'static>,
    ) -> Result<(Vec<UncachedObject<K>>, Versions), Error> {
        // An uncached kind is refused even if an informer that another caller declared holds its objects.
        self.coverage.allows_read(true)?;
        let (mut found, mut versions) = (Vec::<UncachedObject<K>>::new(), Versions::new());
        let mut query = self.placed(list_options)?;
        let mut verb = Some(Verb::List);
        let namespace = list_options.selected_namespace();
        let namespaces = self.coverage().informers_for(namespace)?;
        for namespace in namespaces {
            let verb = verb.take();
            let existing_view = self
                .shared
                .existing_view::<K>(self.kind(), &namespace, verb);
            let informer = match existing_view {
                // Indexes belong to typed handles (views), so list options with an index need a view.
                None if !query.selected_indexes().is_empty() => {
                    let informer = self.informer(namespace.clone(), verb, caller).await;
                    match self.unless_left(list_options, &namespace, informer)? {
                        None => continue,
                        informer => informer,
                    }
                }
                existing_view => existing_view,
            };
            let (objects, version, unreadable): (Vec<_>, _, _) = match informer {
                Some(informer) => {
                    let selected = informer.as_store().list_entries(&query);
                    let selected = selected.map_err(|_| self.unknown_index(&informer, &query))?;
                    let objects = selected.entries.into_iter().map(UncachedObject::from);
                    (objects.collect(), selected.version, selected.unreadable)
                }
                None => {
                    let shared = &self.shared;
                    let passing =
                        shared.readable_once::<K>(&self.coverage, namespace.clone(), verb, caller);
                    let untyped = self.unless_left(list_options, &namespace, passing.await)?;
                    let Some(untyped) = untyped else { continue };
                    let pass = untyped.list_uncached(&query);
                    let pass = pass.map_err(|_| self.no_index(""))?;
                    (pass.objects, pass.version, pass.unreadable)
                }
            };
            // CACHE-4: an object that does not decode is an error, unless the caller skips such objects.
            if let Some(malformed) = unreadable.filter(|_| !list_options.skips_malformed()) {
                return Err(self.malformed(malformed));
            }
            query = query.reduce_limit(objects.len());
            found.extend(objects);
            versions.push((namespace, version));
        }
        Ok((found, versions))
    }

    fn unless_left<T>(
        &self,
        list_options: &ListOptions,
        namespace: &Option<Arc<str>>,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let asked = list_options.selected_namespace();
        self.shared.unless_left(self.kind(), asked, namespace, read)
    }

    fn placed(&self, list_options: &ListOptions) -> Result<ListOptions, Error> {
        // CACHE-9: a typed key of an index fits only reads of its type.
        if let Some((index, of)) = list_options.index_of_another_type::<K>() {
            return Err(Error::IndexOfAnother {
                kind: self.kind().clone(),
                index: index.to_owned(),
                read: type_name::<K>(),
                of,
            });
        }
        if !list_options.selected_fields().is_everything() {
            let kind = self.kind().clone();
            return Err(Error::FieldsNeedServer { kind });
        }
        let list_options = list_options.clone();
        Ok(match self.kind().is_namespaced() {
            true => list_options,
            false => list_options.namespace(""),
        })
    }

    fn malformed(&self, problem: Malformed) -> Error {
        Error::malformed(self.kind(), problem)
    }

    fn unknown_index(&self, informer: &Informer<K>, query: &ListOptions) -> Error {
        let store = informer.as_store();
        let unknown = query
            .selected_indexes()
            .iter()
            .find(|(name, _)| !store.has_index(name));
        self.no_index(unknown.map_or("", |(name, _)| name))
    }

    fn no_index(&self, index: &str) -> Error {
        Error::NoIndex {
            kind: self.coverage.kind().clone(),
            index: index.to_owned(),
        }
    }
}

/// Reads one object from the informer that holds it.
pub(crate) async fn get<K: Object>(
    shared: &SharedCache,
    coverage: &Coverage,
    key: &ObjectKey,
    caller: &'static Location<'static>,
) -> Result<Arc<K>, Error> {
    let (kind, namespace) = (coverage.kind(), coverage.informer_for(key)?);
    let informer = shared.readable::<K>(coverage, namespace.clone(), Some(Verb::Get), caller);
    let (informer, key) = (informer.await?, key.placed(kind));
    let store = informer.as_store();
    let mut found = store.try_get(&key);
    if matches!(found, Ok(None)) && shared.has_arrived(coverage, informer.untyped(), &key)? {
        found = store.try_get(&key);
    }
    // An object that does not decode is an error, because callers would clean up after an absent object.
    let found = found.map_err(|problem| Error::malformed(kind, problem))?;
    found.ok_or_else(|| Error::NotFound {
        kind: kind.clone(),
        key: key.into_owned(),
        scoped_by: coverage.scoped_by_in(namespace.as_deref()),
    })
}
