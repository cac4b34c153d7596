//! Words: what a cache looks at, by default and for single kinds.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_informer::Transform;
use steersman_object::{Gvk, Kind, TypedObject};

use crate::metrics::CacheMetrics;
use crate::settings::Settings;
use crate::watch_error::{OnWatchError, WatchError};

/// How many bytes of objects are kept decoded where nobody says otherwise.
const DECODED: usize = 64 << 20;

/// What a [`Cache`](crate::Cache) looks at.
///
/// Nothing is checked against a cluster; contradictions are refused by
/// [`Cache::new`](crate::Cache::new).
#[derive(Clone, Debug)]
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
    pub(crate) on_watch_error: OnWatchError,
    pub(crate) seed: Option<u64>,
    pub(crate) objects: BTreeMap<Gvk, (Kind, ByObject)>,
}

/// What a cache looks at for one kind; what is not said here is inherited from [`CacheOptions`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ByObject {
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) settings: Settings,
    uncached: bool,
    /// The types that the kind was declared as with [`CacheOptions::by_object`].
    pub(crate) types: Vec<TypeId>,
    /// Set by [`CacheOptions::disable_for`], which later words about the kind do not undo.
    disabled: bool,
}

/// Namespaces by name, and all others where these are cached too; none at all means all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// In the order they were named, each once.
    pub(crate) named: Vec<(String, Settings)>,
    pub(crate) others: Option<Settings>,
}

/// What becomes of a read of a kind that nothing declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undeclared {
    /// It starts an informer, with a warning. Never a cluster-wide one of Secrets or ConfigMaps.
    #[default]
    Start,
    /// It is an error that shows the line to write.
    Fail,
    /// The client asks the server. The cache itself refuses it as it does for an uncached kind.
    Live,
}

impl CacheOptions {
    /// Every namespace, WatchList streaming, two minutes to sync, ten to linger, and 64 MiB of decoded objects.
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
            on_watch_error: OnWatchError::default(),
            seed: None,
            objects: BTreeMap::new(),
        }
    }

    /// The namespaces in which namespaced kinds are cached unless [`ByObject::namespaces`] says
    /// otherwise. None of them means all; cluster-scoped kinds are not affected.
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

    /// Adds a default namespace, with settings of its own.
    pub fn default_namespace(mut self, namespace: impl Into<String>, settings: Settings) -> Self {
        self.namespaces.name(namespace.into(), settings);
        self
    }

    /// Caches the namespaces that are not named by default, too, with settings of their own.
    pub fn default_other_namespaces(mut self, settings: Settings) -> Self {
        self.namespaces.others = Some(settings);
        self
    }

    /// What holds for every kind that does not say otherwise. Of two calls the later one counts, where
    /// both speak of the same setting.
    pub fn defaults(mut self, settings: Settings) -> Self {
        self.defaults = settings.or(&self.defaults);
        self
    }

    /// What becomes of reads of kinds that nothing declares. By default they start informers.
    pub fn on_undeclared(mut self, undeclared: Undeclared) -> Self {
        self.undeclared = undeclared;
        self
    }

    /// Whether informers ask for the initial state as a stream (WatchList) before they fall back to
    /// paged lists. On by default.
    pub fn watch_list(mut self, on: bool) -> Self {
        self.watch_list = on;
        self
    }

    /// How long a read, and [`Cache::wait_for_sync`](crate::Cache::wait_for_sync), wait for a first
    /// sync. Two minutes by default; with zero nothing waits, and a kind that has not synced is an error at once.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// How many informers may be at their first sync at once; at least 1, and 10 by default. The
    /// others wait for their turn, so that the start of an operator is no burst for the server. As many
    /// informers list again at once after an outage.
    ///
    /// A turn ends with the sync, with a failure, or after half a minute: a kind that does not
    /// answer keeps no other waiting for good.
    pub fn concurrent_syncs(mut self, informers: usize) -> Self {
        self.concurrent_syncs = informers.max(1);
        self
    }

    /// How long an informer that nobody declared goes on after the last read of it, and without a
    /// subscription; `None` for as long as the cache runs, and zero for no longer than it is used. Ten minutes by default, known to within a
    /// tenth. The next read starts it again.
    ///
    /// What the options name, a controller watches, or [`Cache::informer`](crate::Cache::informer)
    /// was asked for goes on for good.
    pub fn linger(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.linger = after.into();
        self
    }

    /// How many bytes of objects the whole cache keeps decoded, beside all of them packed: 0 none, `None` all
    /// of them. 64 MiB by default.
    ///
    /// A read of an object that is kept decoded shares it; one of another object decodes it, which takes
    /// some tens of microseconds. Kept is what is read again and again. The bytes are an estimate.
    pub fn decoded_budget(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.decoded_budget = bytes.into();
        self
    }

    /// Is told of each request of an informer that fails, once for each attempt: see [`WatchError`]. The
    /// hook runs in the informer's task: it must neither block nor panic.
    pub fn on_watch_error(mut self, hook: impl Fn(&WatchError) + Send + Sync + 'static) -> Self {
        self.on_watch_error = OnWatchError(Some(Arc::new(hook)));
        self
    }

    /// Where the cache and its informers count what they do. Nowhere by default; a manager passes those of
    /// its registry.
    pub fn metrics(mut self, metrics: CacheMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Fixes the chance in the informers' delays, for worlds that are to be repeated. Each kind and namespace
    /// draws its own from it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Whether metrics were set.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Sets what is cached of the kind `K`. The last call for a kind counts.
    ///
    /// This starts no informer: the first read, watch or index does. But the kind is declared by it, so
    /// that a read starts one without a warning, for good. So is the type: from its first read on objects
    /// are looked at as `K` for good, and not only while they are read as one now and then
    /// (CACHE-15).
    pub fn by_object<K: TypedObject>(self, mut options: ByObject) -> Self {
        options.types.push(TypeId::of::<K>());
        self.by_kind(&Kind::of::<K>(), options)
    }

    /// As [`by_object`](Self::by_object), of a kind known only at runtime. No type is declared by it.
    pub fn by_kind(mut self, kind: &Kind, mut options: ByObject) -> Self {
        if let Some((_, before)) = self.objects.get(kind.gvk()) {
            options.disabled |= before.disabled;
            options.types.extend(&before.types);
        }
        let options = (kind.clone(), options);
        self.objects.insert(kind.gvk().clone(), options);
        self
    }

    /// Sends the client's reads of the kind `K` to the server, and leaves what else is said of it,
    /// before or after.
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
    /// As the cache's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The namespaces in which this kind is cached, instead of the default ones: one informer for each.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let own = self.namespaces.get_or_insert_default();
        own.named.clear();
        for namespace in namespaces {
            own.name(namespace.into(), Settings::new());
        }
        self
    }

    /// Adds a namespace in which this kind is cached, with settings of its own.
    pub fn namespace(mut self, namespace: impl Into<String>, settings: Settings) -> Self {
        let own = self.namespaces.get_or_insert_default();
        own.name(namespace.into(), settings);
        self
    }

    /// Caches this kind in the namespaces that are not named, too, with settings of their own. No object
    /// is watched twice: the informer of the others asks for none of the named ones.
    pub fn other_namespaces(mut self, settings: Settings) -> Self {
        self.namespaces.get_or_insert_default().others = Some(settings);
        self
    }

    /// Caches this kind in all namespaces, whatever the default ones are.
    pub fn all_namespaces(mut self) -> Self {
        self.namespaces = Some(Namespaces::default());
        self
    }

    /// What holds for this kind, in all its namespaces that do not say otherwise. What was said before, of
    /// settings that these leave open, stands.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings.or(&self.settings);
        self
    }

    /// Caches only objects with these labels, in the syntax of `kubectl -l`.
    ///
    /// The server filters, so objects without them cost nothing; the cache cannot tell them from
    /// absent ones.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings = self.settings.labels(selector);
        self
    }

    /// Caches only objects with these fields, such as `spec.nodeName=node-1`.
    ///
    /// Servers support a few fields per kind, and always `metadata.name` and `metadata.namespace`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings = self.settings.fields(selector);
        self
    }

    /// Changes each object before anybody sees it.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.settings = self.settings.transform(transform);
        self
    }

    /// Indexes the values of these labels: see [`Settings::index_labels`].
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.settings = self.settings.index_labels(labels);
        self
    }

    /// Reads of this kind go to the server. Controllers may still watch it.
    pub fn uncached(mut self) -> Self {
        self.uncached = true;
        self
    }

    pub(crate) fn is_uncached(&self) -> bool {
        self.uncached || self.disabled
    }
}

impl Namespaces {
    /// Names a namespace; the last settings for it count.
    fn name(&mut self, namespace: String, settings: Settings) {
        match self.named.iter_mut().find(|(known, _)| *known == namespace) {
            Some((_, known)) => *known = settings,
            None => self.named.push((namespace, settings)),
        }
    }

    /// What is said of one namespace.
    pub(crate) fn settings(&self, namespace: &str) -> Option<&Settings> {
        let mut named = self.named.iter();
        let found = named.find(|(known, _)| known == namespace);
        found.map(|(_, settings)| settings)
    }
}
