//! Handle: reads the objects of one kind as one type.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use steersman_api::Malformed;
use steersman_informer::{EntryList, Informer, Subscription, UncachedObject};
use steersman_object::{Kind, Object, ObjectKey, ResourceVersion, Selection};
use tokio::task::coop;

use crate::coverage::Coverage;
use crate::error::{Error, absent_is_none};
use crate::listed::{Listed, Versions};
use crate::metrics::Verb;
use crate::shared::{Shared, Use};

/// Reads the objects of one kind as `K`s: of a kind known only at runtime as `DynamicObject`s, of
/// any kind as metadata, or as a type of one's own. Cheap to clone.
///
/// Made by [`Cache::of`](crate::Cache::of) and [`Cache::metadata`](crate::Cache::metadata). All
/// that read a kind share one informer, whatever they read its objects as.
pub struct Reads<K> {
    shared: Arc<Shared>,
    coverage: Arc<Coverage>,
    of: PhantomData<fn() -> K>,
}

/// One object, from the informer that holds it.
pub(crate) async fn get<K: Object>(
    shared: &Shared,
    coverage: &Coverage,
    key: &ObjectKey,
    caller: &'static Location<'static>,
) -> Result<Arc<K>, Error> {
    let (kind, place) = (coverage.kind(), coverage.informer_for(key)?);
    let informer = shared.readable::<K>(coverage, place.clone(), Some(Verb::Get), caller);
    let found = informer.await?.as_store().try_get(&key.placed(kind));
    // Absent and unreadable are not the same: who takes one for the other cleans up too early.
    let found = found.map_err(|problem| malformed(kind, problem))?;
    found.ok_or_else(|| Error::NotFound {
        kind: kind.clone(),
        key: key.placed(kind).into_owned(),
        scoped_by: coverage.scoped_by_in(place.as_deref()),
    })
}

fn malformed(kind: &Kind, problem: Malformed) -> Error {
    Error::Malformed {
        kind: kind.clone(),
        key: problem.key,
        problem: problem.error,
    }
}

impl<K: Object> Reads<K> {
    pub(crate) fn new(shared: Arc<Shared>, coverage: Arc<Coverage>) -> Self {
        Self {
            shared,
            coverage,
            of: PhantomData,
        }
    }

    /// The kind that is read.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.coverage.kind()
    }

    /// Whether reads of the kind are answered from memory; false where the options say `uncached`.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.shared.is_cached(&self.coverage)
    }

    /// The informers of the kind, as [`Cache::informers`](crate::Cache::informers).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn informers(&self) -> Result<Vec<Informer<K>>, Error> {
        let places = self.coverage.informers().into_iter();
        let kind = self.coverage.kind();
        places
            .map(|place| self.shared.declare(kind, place, Use::Meant))
            .collect()
    }

    /// Subscribes to the kind: one subscription for each of its informers. Unlike
    /// [`informers`](Self::informers) this declares nothing: where nothing else does, the informers
    /// linger and end ([`CacheOptions::linger`](crate::CacheOptions::linger)) once all subscriptions
    /// are dropped.
    ///
    /// # Errors
    ///
    /// What keeps the kind from being read by those who did not declare it, as
    /// [`Cache::get`](crate::Cache::get); [`Error::Stopped`].
    #[track_caller]
    pub fn subscribe(&self) -> Result<Vec<Subscription<K>>, Error> {
        let caller = Location::caller();
        let mut subscriptions = Vec::new();
        for place in self.coverage.informers() {
            let subscription = self.shared.subscribe(&self.coverage, place, caller)?;
            subscriptions.push(subscription);
        }
        Ok(subscriptions)
    }

    /// The object, shared; as [`Cache::get`](crate::Cache::get).
    ///
    /// # Errors
    ///
    /// As [`Cache::get`](crate::Cache::get).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Cache::get`](crate::Cache::get).
    #[track_caller]
    pub fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.get_at(key, Location::caller())
    }

    /// Reads for the code at `caller`, which is named if the read starts an informer.
    pub(crate) async fn get_at(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        if let Some(found) = self.shared.at_hand(&self.coverage, key) {
            return Ok(found);
        }
        Box::pin(get(&self.shared, &self.coverage, key, caller)).await
    }

    /// As [`get_opt`](Self::get_opt), with the version that the informer was read at: an object that is
    /// absent was so at that version.
    ///
    /// # Errors
    ///
    /// As [`get_opt`](Self::get_opt).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn get_with_version(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<(Option<Arc<K>>, ResourceVersion), Error>> + Send {
        let caller = Location::caller();
        async move {
            let place = self.coverage.informer_for(key)?;
            let informer = self.informer(place, Some(Verb::Get), caller).await?;
            let store = informer.as_store();
            let (found, version) = store.get_with_version(&key.placed(self.kind()));
            let found = found.map_err(|problem| self.malformed(problem))?;
            Ok((found, version))
        }
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
    pub fn get_opt(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.get_at(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// The objects that `selection` selects, shared, with the versions they were read at.
    ///
    /// # Errors
    ///
    /// As [`Cache::list`](crate::Cache::list).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Cache::get`](crate::Cache::get).
    #[track_caller]
    pub fn list(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<Listed<K>, Error>> + Send {
        self.list_at(selection, Location::caller())
    }

    /// Lists for the code at `caller`.
    pub(crate) async fn list_at(
        &self,
        selection: &Selection,
        caller: &'static Location<'static>,
    ) -> Result<Listed<K>, Error> {
        let (mut items, mut versions) = (Vec::new(), Versions::new());
        let mut query = self.placed(selection)?;
        // One read, however many informers there are.
        let mut verb = Some(Verb::List);
        for place in self
            .coverage
            .informers_for(selection.selected_namespace())?
        {
            let informer = self.informer(place.clone(), verb.take(), caller).await?;
            let found = informer.as_store().list_lazily(&query);
            let mut found = found.map_err(|_| self.unknown_index(&informer, &query))?;
            // CACHE-12
            while found.decode_next() {
                coop::consume_budget().await;
            }
            let found = found.end();
            // CACHE-4
            if let Some(malformed) = found.unreadable.filter(|_| !selection.skips_malformed()) {
                return Err(self.malformed(malformed));
            }
            query = query.reduce_limit(found.objects.len());
            if items.is_empty() {
                items = found.objects;
            } else {
                items.extend(found.objects);
            }
            versions.push((place, found.version));
        }
        Ok(Listed::new(items, versions))
    }

    /// Calls `f` with each object that `selection` selects, and collects none; answers the versions that were
    /// read. As long as nobody looks at
    /// the kind as `K`s, this does not either: each object is decoded when its turn comes, for that
    /// turn alone. (Who names an index does look; so do reads and subscriptions.)
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list). An object that cannot be read may show only when its turn comes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: `f` is not called any more.
    #[track_caller]
    pub fn for_each(
        &self,
        selection: &Selection,
        mut f: impl FnMut(&K) + Send,
    ) -> impl Future<Output = Result<Versions, Error>> + Send {
        let caller = Location::caller();
        async move {
            let (objects, versions) = self.unread(selection, caller).await?;
            for object in objects {
                match object.read() {
                    Ok(object) => f(&object),
                    Err(_) if selection.skips_malformed() => {}
                    // CACHE-4
                    Err(malformed) => return Err(self.malformed(malformed)),
                }
                // CACHE-12
                coop::consume_budget().await;
            }
            Ok(versions)
        }
    }

    /// The keys of the objects that `selection` selects. Decodes nothing: as long as nobody looks at the
    /// kind as `K`s, the objects that could not be read as such are among them.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn keys(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<ObjectKey>, Error>> + Send {
        let read = self.keys_at(selection, Location::caller());
        async move { Ok(read.await?.0) }
    }

    /// As [`keys`](Self::keys), with the versions that the informers were read at.
    ///
    /// # Errors
    ///
    /// As [`keys`](Self::keys).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn keys_with_versions(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<(Vec<ObjectKey>, Versions), Error>> + Send {
        self.keys_at(selection, Location::caller())
    }

    /// The values that objects have in an index, in order, each once. Decodes nothing.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`get`](Self::get).
    #[track_caller]
    pub fn index_values(
        &self,
        index: &str,
    ) -> impl Future<Output = Result<Vec<Arc<str>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let mut values = Vec::new();
            // One read, however many informers there are.
            let mut verb = Some(Verb::List);
            for place in self.coverage.informers() {
                let informer = self.informer(place, verb.take(), caller);
                let found = informer.await?.as_store().index_values(index);
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
        selection: &Selection,
        caller: &'static Location<'static>,
    ) -> Result<(Vec<ObjectKey>, Versions), Error> {
        let (objects, versions) = self.unread(selection, caller).await?;
        let keys = objects.iter().map(|object| object.key().clone());
        Ok((keys.collect(), versions))
    }

    /// The informer of a place, once it may be read; the read counts as a `verb`, where it is one.
    fn informer(
        &self,
        place: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Informer<K>, Error>> + Send {
        self.shared.readable(&self.coverage, place, verb, caller)
    }

    /// As [`list_at`](Self::list_at), for those who go over the objects once.
    async fn unread(
        &self,
        selection: &Selection,
        caller: &'static Location<'static>,
    ) -> Result<(Vec<UncachedObject<K>>, Versions), Error> {
        // Also where somebody else has the kind in memory.
        self.coverage.allows_read(true)?;
        let (mut found, mut versions) = (Vec::<UncachedObject<K>>::new(), Versions::new());
        let mut query = self.placed(selection)?;
        let mut verb = Some(Verb::List);
        for place in self
            .coverage
            .informers_for(selection.selected_namespace())?
        {
            let verb = verb.take();
            let looked_at = self.shared.looked_at::<K>(self.kind(), &place, verb);
            let informer = match looked_at {
                // Indexes are of the types that look.
                None if !query.selected_indexes().is_empty() => {
                    Some(self.informer(place.clone(), verb, caller).await?)
                }
                looked_at => looked_at,
            };
            let (objects, version, unreadable): (Vec<_>, _, _) = match informer {
                Some(informer) => {
                    let selected = self.select(&informer, &query)?;
                    let objects = selected.entries.into_iter().map(UncachedObject::from);
                    (objects.collect(), selected.version, selected.unreadable)
                }
                None => {
                    let shared = &self.shared;
                    let passing = shared.passable::<K>(&self.coverage, place.clone(), verb, caller);
                    let pass = passing.await?.list_uncached(&query);
                    let pass = pass.map_err(|_| self.no_index(""))?;
                    (pass.objects, pass.version, pass.unreadable)
                }
            };
            // CACHE-4
            if let Some(malformed) = unreadable.filter(|_| !selection.skips_malformed()) {
                return Err(self.malformed(malformed));
            }
            query = query.reduce_limit(objects.len());
            found.extend(objects);
            versions.push((place, version));
        }
        Ok((found, versions))
    }

    fn placed(&self, selection: &Selection) -> Result<Selection, Error> {
        // CACHE-9
        if let Some((index, of)) = selection.index_of_another_type::<K>() {
            return Err(Error::IndexOfAnother {
                kind: self.kind().clone(),
                index: index.to_owned(),
                read: type_name::<K>(),
                of,
            });
        }
        if !selection.selected_fields().is_everything() {
            return Err(Error::FieldsNeedServer {
                kind: self.kind().clone(),
            });
        }
        let selection = selection.clone();
        Ok(match self.kind().is_namespaced() {
            true => selection,
            false => selection.namespace(""),
        })
    }

    fn malformed(&self, problem: Malformed) -> Error {
        malformed(self.kind(), problem)
    }

    fn select(&self, informer: &Informer<K>, query: &Selection) -> Result<EntryList<K>, Error> {
        let selected = informer.as_store().list_entries(query);
        selected.map_err(|_| self.unknown_index(informer, query))
    }

    fn unknown_index(&self, informer: &Informer<K>, query: &Selection) -> Error {
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

impl<K> Clone for Reads<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            coverage: Arc::clone(&self.coverage),
            of: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Reads<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads")
            .field("kind", self.coverage.kind())
            .finish_non_exhaustive()
    }
}
