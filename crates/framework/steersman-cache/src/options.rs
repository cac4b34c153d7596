//! Words: the options of a cache, and those of single kinds.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_informer::{ShardFilter, Transform};
use steersman_object::{Gvk, Kind, TypedObject};

use crate::metrics::CacheMetrics;
use crate::settings::Settings;
use crate::watch_error::{OnWatchError, WatchError};

/// The default of [`CacheOptions::decoded_budget`], in bytes.
const DECODED: usize = 64 << 20;

/// The options of a [`Cache`](crate::Cache).
///
/// The options are not checked against a cluster. [`Cache::new`](crate::Cache::new) refuses contradictory options.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct CacheOptions {
    pub(crate) namespaces: Namespaces,
    pub(crate) defaults: Settings,
    pub(crate) undeclared: Undeclared,
    pub(crate) watch_list: bool,
    pub(crate) sync_timeout: Duration,
    pub(crate) concurrent_syncs: usize,
    pub(crate) linger: Option<Duration>,
    pub(crate) decoded_budget: Option<usize>,
    pub(crate) metrics: Option<CacheMetrics>,
    #[debug("{:?}", on_watch_error.is_some())]
    pub(crate) on_watch_error: Option<OnWatchError>,
    pub(crate) seed: Option<u64>,
    pub(crate) objects: BTreeMap<Gvk, (Kind, ByObject)>,
    pub(crate) shards: Option<ShardFilter>,
}

/// The options of one kind; unset options are inherited from [`CacheOptions`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ByObject {
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) settings: Settings,
    uncached: bool,
    pub(crate) everywhere: bool,
    /// The Rust types that [`CacheOptions::by_object`] declared for the kind: their views are kept (CACHE-15).
    pub(crate) types: Vec<TypeId>,
    /// Whether [`CacheOptions::disable_for`] was called; later options of the kind do not reset it.
    disabled: bool,
}

/// The cached namespaces by name, and the settings of all other namespaces if they are cached, too. Empty means that
/// all namespaces are cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// The named namespaces in the order of their declaration; each name occurs once.
    pub(crate) named: Vec<(String, Settings)>,
    pub(crate) others: Option<Settings>,
}

/// The behaviour of a read of a kind that neither options, a controller, an index nor a caller declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undeclared {
    /// Starts an informer and logs a warning. Never starts a cluster-wide informer of Secrets or ConfigMaps.
    #[default]
    Start,
    /// Fails with an error that contains the missing declaration.
    Fail,
    /// The client reads from the server. The cache itself refuses the read, as for an uncached kind.
    Live,
}

impl CacheOptions {
    /// Creates the default options: all namespaces, streaming lists, a sync timeout of 2 minutes, a
    /// linger time of 10 minutes, and 64 MiB of decoded objects.
    pub fn new() -> Self {
        Self {
            namespaces: Namespaces::default(),
            defaults: Settings::new(),
            undeclared: Undeclared::Start,
            watch_list: true,
            sync_timeout: Duration::from_secs(120),
            concurrent_syncs: 10,
            linger: Some(Duration::from_secs(600)),
            decoded_budget: Some(DECODED),
            metrics: None,
            on_watch_error: None,
            seed: None,
            objects: BTreeMap::new(),
            shards: None,
        }
    }

    /// Sets the namespaces in which namespaced kinds are cached, unless [`ByObject::namespaces`] overrides them. An
    /// empty list means all namespaces.
    pub fn default_namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Self {
        self.namespaces.named.clear();
        for namespace in namespaces {
            self.namespaces.name(namespace.into(), Settings::new());
        }
        self
    }

    /// Adds a namespace in which kinds are cached by default, with settings of its own.
    pub fn default_namespace(mut self, namespace: impl Into<String>, settings: Settings) -> Self {
        self.namespaces.name(namespace.into(), settings);
        self
    }

    /// Also caches kinds in all namespaces that are not default namespaces, with these settings.
    pub fn default_other_namespaces(mut self, settings: Settings) -> Self {
        self.namespaces.others = Some(settings);
        self
    }

    /// Sets the default settings of all kinds. If two calls set the same setting, the later call applies.
    pub fn defaults(mut self, settings: Settings) -> Self {
        self.defaults = settings.or(&self.defaults);
        self
    }

    /// Sets the behaviour of reads of kinds that nothing declares. Default: [`Undeclared::Start`].
    pub fn on_undeclared(mut self, undeclared: Undeclared) -> Self {
        self.undeclared = undeclared;
        self
    }

    /// Sets whether informers first request the initial state as a stream (WatchList) and use paged
    /// lists as the fallback. Default: true.
    pub fn watch_list(mut self, on: bool) -> Self {
        self.watch_list = on;
        self
    }

    /// Sets how long reads and [`Cache::wait_for_sync`](crate::Cache::wait_for_sync) wait for a first sync. Default: 2
    /// minutes. With zero a read of an unsynced kind fails without a wait.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Sets the number of informers that run their first sync at the same time; at least 1. Default: 10. Other
    /// informers wait, so that the start of an operator does not overload the server. The limit also applies to relists
    /// after an outage.
    ///
    /// An informer makes room for another after its sync, a failure, or 30 seconds, so a kind without a response does
    /// not block other kinds.
    pub fn concurrent_syncs(mut self, informers: usize) -> Self {
        self.concurrent_syncs = informers.max(1);
        self
    }

    /// Sets how long an undeclared informer continues after its last read and without a subscription; `None` for as
    /// long as the cache runs, zero for only as long as it is in use. Default: 10 minutes. The precision is a tenth of
    /// the value. The next read starts the informer again.
    ///
    /// An informer is kept as long as the cache runs if the options declare its kind, a controller watches it, or
    /// [`Cache::informer`](crate::Cache::informer) was called for it.
    pub fn linger(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.linger = after.into();
        self
    }

    /// Sets the budget of decoded objects for the whole cache, in bytes, in addition to the compact form of all
    /// objects. With 0 no decoded object is kept; with `None` there is no limit. Default: 64 MiB.
    ///
    /// A read of a decoded object shares it; otherwise the read decodes the object in some tens of microseconds.
    /// Objects that are read repeatedly stay decoded. The byte counts are estimates.
    pub fn decoded_budget(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.decoded_budget = bytes.into();
        self
    }

    /// Sets a hook that is called after each failed request attempt of an informer, see
    /// [`WatchError`]. The hook runs in the informer's task: it must neither block nor panic.
    pub fn on_watch_error(mut self, hook: impl Fn(&WatchError) + Send + Sync + 'static) -> Self {
        self.on_watch_error = Some(Arc::new(hook));
        self
    }

    /// Sets the metrics of the cache and its informers. Default: none; a manager passes the metrics of its registry.
    pub fn metrics(mut self, metrics: CacheMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Seeds the random parts of the informers' delays, for reproducible tests. Each kind and namespace derives its own
    /// seed from this seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns whether [`metrics`](Self::metrics) were set.
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Sets the options of the kind `K`. The last call for a kind applies.
    ///
    /// Declares the kind: a read starts its informer without a warning, and the informer never ends as idle. Also
    /// declares the Rust type: after the first read as `K`, the typed handle (view) is kept for as long as the cache
    /// runs (CACHE-15). Starts no informer; the first read, watch or index does.
    pub fn by_object<K: TypedObject>(self, mut options: ByObject) -> Self {
        options.types.push(TypeId::of::<K>());
        self.by_kind(&Kind::of::<K>(), options)
    }

    /// Sets the options like [`by_object`](Self::by_object), for a kind known only at runtime. Declares no Rust type.
    pub fn by_kind(mut self, kind: &Kind, mut options: ByObject) -> Self {
        if let Some((_, before)) = self.objects.get(kind.gvk()) {
            options.disabled |= before.disabled;
            options.types.extend(&before.types);
        }
        let options = (kind.clone(), options);
        self.objects.insert(kind.gvk().clone(), options);
        self
    }

    /// Sends the client's reads of the kind `K` to the server. Other options of the kind still apply, whether they are
    /// set before or after this call.
    pub fn disable_for<K: TypedObject>(mut self) -> Self {
        let kind = Kind::of::<K>();
        let entry = self.objects.entry(kind.gvk().clone());
        let (_, options) = entry.or_insert_with(|| (kind, ByObject::new()));
        options.disabled = true;
        self
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ByObject {
    /// Creates options that inherit all defaults of the cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the namespaces in which this kind is cached, with one informer each, instead of the default namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let own = self.namespaces.get_or_insert_default();
        own.named.clear();
        for namespace in namespaces {
            own.name(namespace.into(), Settings::new());
        }
        self
    }

    /// Adds a namespace in which this kind is cached, with its own settings.
    pub fn namespace(mut self, namespace: impl Into<String>, settings: Settings) -> Self {
        let own = self.namespaces.get_or_insert_default();
        own.name(namespace.into(), settings);
        self
    }

    /// Also caches this kind in all other namespaces, with these settings. No object is watched twice: the informer of
    /// the other namespaces excludes the named namespaces.
    pub fn other_namespaces(mut self, settings: Settings) -> Self {
        self.namespaces.get_or_insert_default().others = Some(settings);
        self
    }

    /// Caches this kind in all namespaces, regardless of the default namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.namespaces = Some(Namespaces::default());
        self
    }

    /// Sets the settings of this kind in all its namespaces. Settings from earlier calls remain unless set again.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings.or(&self.settings);
        self
    }

    /// Caches only objects with these labels, in the syntax of `kubectl -l`.
    ///
    /// The server filters, so other objects cost nothing; to the cache they look absent.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings = self.settings.labels(selector);
        self
    }

    /// Caches only objects with these fields, such as `spec.nodeName=node-1`.
    ///
    /// Servers support a few fields per kind; all support `metadata.name` and `metadata.namespace`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings = self.settings.fields(selector);
        self
    }

    /// Sets a function that changes each object before the cache stores it.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.settings = self.settings.transform(transform);
        self
    }

    /// Indexes the values of these labels: see [`Settings::index_labels`].
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.settings = self.settings.index_labels(labels);
        self
    }

    /// Caches the whole kind in every replica, although [`CacheOptions::shards`] limits the other kinds to the slots of
    /// the replica.
    pub fn everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    /// Sends the client's reads of this kind to the server. Controllers may still watch it.
    pub fn uncached(mut self) -> Self {
        self.uncached = true;
        self
    }

    pub(crate) fn is_uncached(&self) -> bool {
        self.uncached || self.disabled
    }
}

impl Namespaces {
    pub(crate) fn name(&mut self, namespace: String, settings: Settings) {
        match self.named.iter_mut().find(|(known, _)| *known == namespace) {
            Some((_, known)) => *known = settings,
            None => self.named.push((namespace, settings)),
        }
    }

    pub(crate) fn settings(&self, namespace: &str) -> Option<&Settings> {
        let mut named = self.named.iter();
        let found = named.find(|(known, _)| known == namespace);
        found.map(|(_, settings)| settings)
    }
}
