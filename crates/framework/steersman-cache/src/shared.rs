//! Driver: the state that all handles of one cache share: creates, finds and waits for informers.

mod run;
mod namespaced_informer;
mod holds;
mod scope;
mod slots;

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hasher as _;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use fnv::FnvHasher;
use parking_lot::{Mutex, RwLock};
use steersman_api::FieldManagers;
use steersman_informer::{
    Budget, Informer, InformerOptions, Reason, ServerHealth, Subscription, UntypedInformer,
};
use steersman_object::{Gvk, Kind, Object, ObjectKey, TypedObject};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::coverage::Coverage;
use crate::error::Error;
use crate::failure_advice::Advice;
use crate::informer_entry::{InformerEntry, Readable, UseGuard, settled};
use crate::informer_map::{CachePhase, InformerKey, InformerMap};
use crate::metrics::{ReadCounts, SyncWait, Verb};
use crate::options::CacheOptions;
use crate::server_problem::ServerProblem;
use crate::watch_error::WatchError;
use crate::written_versions::WrittenVersions;

pub use crate::shared::holds::HeldInformers;
pub use crate::shared::namespaced_informer::NamespacedInformer;
pub use crate::shared::run::StartedCache;
use crate::shared::scope::Scope;
pub(crate) use crate::shared::scope::{AddIndex, IndexName};

pub(crate) struct SharedCache {
    pub(crate) options: CacheOptions,
    pub(crate) registry: RwLock<InformerMap<InformerEntry>>,
    pub(crate) scope: Scope,
    /// The kinds with a logged warning that a read started an undeclared informer: the warning comes once per kind.
    warned: Mutex<HashSet<Gvk>>,
    /// The read counters by kind, for the metrics; empty without metrics.
    reads: Mutex<HashMap<Gvk, Arc<ReadCounts>>>,
    /// A description of the credentials for messages; set when the cache runs.
    credentials: Arc<OnceLock<String>>,
    /// The budget in bytes of decoded objects, shared by all informers without a budget of their own.
    budget: Budget,
    /// The health of the server: in an outage, one informer probes the server for all others (REFL-9).
    health: ServerHealth,
    /// A problem of the whole server that the owner of the cache has noted; reads of unsynced kinds fail with it.
    pub(crate) server_problem: ServerProblem,
    /// The versions that this process wrote: the first lists of informers must have reached them (RYOW-10).
    pub(crate) written_versions: Arc<WrittenVersions>,
    /// The kinds with definitions that this program installs, so that a first list may fail until the kind is served.
    pub(crate) installed: Mutex<Vec<Gvk>>,
    /// The kinds with objects that this program converts, so that a first list may fail until it serves its webhook.
    pub(crate) converted: Mutex<Vec<Gvk>>,
    /// The field managers of this program: informers keep digests of their applies (CLIENT-12).
    pub(crate) field_managers: FieldManagers,
    /// Wakes the task that starts informers, after an informer was declared.
    declared: Notify,
    /// The phase of the cache, for tasks that wait for it to change.
    phase: watch::Sender<CachePhase>,
}

/// The purpose for which a caller obtains an informer.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The caller declares the informer, so it never ends for idleness.
    Declare,
    /// An optional watch keeps the informer: meanwhile the informer counts as declared.
    Hold,
    /// A read or a subscription of the code at this location.
    Read(&'static Location<'static>),
}

impl SharedCache {
    pub(crate) fn new(options: CacheOptions) -> Self {
        Self {
            budget: Budget::new(options.decoded_budget),
            health: ServerHealth::new(options.concurrent_syncs),
            scope: Scope::new(&options),
            options,
            registry: RwLock::new(InformerMap::new()),
            warned: Mutex::default(),
            reads: Mutex::default(),
            credentials: Arc::default(),
            server_problem: ServerProblem::default(),
            written_versions: Arc::default(),
            installed: Mutex::default(),
            converted: Mutex::default(),
            field_managers: FieldManagers::default(),
            declared: Notify::new(),
            phase: watch::Sender::new(CachePhase::Declaring),
        }
    }

    /// Returns whether reads of a kind are served from memory and not from the server.
    pub(crate) fn is_cached(&self, coverage: &Coverage) -> bool {
        coverage.is_cached(|| {
            let registry = self.registry.read();
            let gvk = coverage.kind().gvk();
            coverage.informers().into_iter().any(|namespace| {
                let entry = registry.at(gvk, &namespace);
                entry.is_some_and(InformerEntry::is_declared)
            })
        })
    }

    /// Finds the coverage of `K` by its Rust type, and returns an object as [`decoded`](Self::decoded) does: `None` if
    /// memory does not hold the object decoded, or if the coverage of `K` is not computed yet.
    pub(crate) fn typed_decoded<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let typed = self.scope.typed.read();
        self.decoded(typed.get(&TypeId::of::<K>())?, key)
    }

    /// Returns an object if its informer may be read and holds the object decoded. Never waits and starts no informer,
    /// so `None` does not mean that the object is absent. A hit counts as a read in the metrics.
    pub(crate) fn decoded<K: Object>(
        &self,
        coverage: &Coverage,
        key: &ObjectKey,
    ) -> Option<Arc<K>> {
        let kind = coverage.kind();
        let namespace = coverage.find_informer_for(key)?;
        let registry = self.registry.read();
        // CACHE-10: a stopped cache answers no read from memory.
        if registry.phase == CachePhase::Stopped {
            return None;
        }
        let entry = registry.at(kind.gvk(), namespace)?;
        coverage.allows_read(entry.is_declared()).ok()?;
        entry.touch();
        let found = entry.decoded(&key.placed(kind))?;
        entry.count(Verb::Get);
        Some(found)
    }

    /// Returns the typed handle of a namespace's informer, after its first sync.
    pub(crate) async fn readable<K: Object>(
        &self,
        coverage: &Coverage,
        namespace: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> Result<Informer<K>, Error> {
        let obtain = |entry: &InformerEntry| entry.informer(false);
        self.wait_readable(coverage, namespace, verb, caller, obtain)
            .await
    }

    /// Returns the untyped informer of a namespace, after its first sync, for one pass over the objects. Keeps no
    /// objects decoded as `K` (VIEW-5).
    pub(crate) async fn readable_once<K: Object>(
        &self,
        coverage: &Coverage,
        namespace: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> Result<UntypedInformer, Error> {
        let need = |entry: &InformerEntry| {
            entry.untyped().need::<K>();
            entry.untyped().clone()
        };
        self.wait_readable(coverage, namespace, verb, caller, need)
            .await
    }

    /// Returns the typed handle (view) of a namespace's informer for `K` if it exists and may be read.
    pub(crate) fn existing_view<K: Object>(
        &self,
        kind: &Kind,
        namespace: &Option<Arc<str>>,
        verb: Option<Verb>,
    ) -> Option<Informer<K>> {
        // A stopped cache gives no handle; the caller then waits for a handle and gets the error.
        let entry = self.known_at(kind, namespace, None).ok()??;
        let informer = entry.existing_view().filter(Informer::has_synced)?;
        if let Some(verb) = verb {
            entry.count(verb);
        }
        Some(informer)
    }

    /// Obtains an informer with `obtain`, starts it if needed, and waits until it may be read.
    async fn wait_readable<R: Readable>(
        &self,
        coverage: &Coverage,
        namespace: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
        obtain: impl Fn(&InformerEntry) -> R,
    ) -> Result<R, Error> {
        let kind = coverage.kind();
        let known = self.known_at(kind, &namespace, verb)?;
        let is_counted = known.is_some();
        coverage.allows_read(known.as_ref().is_some_and(InformerEntry::is_declared))?;
        if let Some(read) = known.as_ref().map(&obtain)
            && read.has_synced()
        {
            return Ok(read);
        }
        // CACHE-8: the guard `entry` keeps the informer from ending as idle while this call waits.
        let (entry, read) = self.entry(kind, namespace, Purpose::Read(caller), obtain)?;
        {
            let registry = self.registry.read();
            if let Some(verb) = verb.filter(|_| !is_counted) {
                entry.count(verb);
            }
            if registry.phase == CachePhase::Declaring {
                return Err(Error::NotStarted { kind: kind.clone() });
            }
        }
        let started = Instant::now();
        let outcome = self.outcome(&read).await;
        if let Some(metrics) = &self.options.metrics {
            metrics.waited(&kind.to_string(), outcome, started.elapsed());
        }
        match outcome {
            SyncWait::Synced => Ok(read),
            SyncWait::Stopped => Err(Error::Stopped { kind: kind.clone() }),
            // CACHE-2: a known failure is returned without waiting for the timeout.
            SyncWait::Unavailable => Err(Error::Unavailable(entry.unsynced())),
            SyncWait::Timeout => Err(Error::SyncTimeout {
                timeout: self.options.sync_timeout,
                unsynced: vec![entry.unsynced()],
            }),
        }
    }

    /// Waits until an informer has synced or fails, until the cache stops or the server has a known problem, at most
    /// for the sync timeout.
    async fn outcome(&self, read: &impl Readable) -> SyncWait {
        let settled = tokio::select! {
            // If the cache stops at the same moment, the informer's own outcome counts.
            biased;
            settled = timeout(self.options.sync_timeout, settled(read)) => settled,
            () = self.reaches(|phase| *phase == CachePhase::Stopped) => return SyncWait::Stopped,
            // CACHE-2: a known problem of the server is returned without a wait.
            () = self.server_problem.occurs() => Ok(false),
        };
        match settled {
            // CACHE-10: informers end before the cache does, so the phase tells whether it has stopped.
            Ok(_) if self.registry.read().phase == CachePhase::Stopped => SyncWait::Stopped,
            Ok(true) => SyncWait::Synced,
            Ok(false) => SyncWait::Unavailable,
            Err(_) => SyncWait::Timeout,
        }
    }

    /// Subscribes to the informer of a namespace, if a read would be allowed to start it.
    pub(crate) fn subscribe<K: Object>(
        &self,
        coverage: &Coverage,
        namespace: Option<Arc<str>>,
        caller: &'static Location<'static>,
    ) -> Result<Subscription<K>, Error> {
        let kind = coverage.kind();
        let known = self.known_at(kind, &namespace, None)?;
        coverage.allows_read(known.as_ref().is_some_and(InformerEntry::is_declared))?;
        // CACHE-8: the guard keeps the informer from ending as idle until the subscription exists.
        let obtain = |entry: &InformerEntry| entry.informer::<K>(false);
        let (_guard, informer) = self.entry(kind, namespace, Purpose::Read(caller), obtain)?;
        Ok(informer.subscribe())
    }

    /// Returns the informer of a namespace, if it exists. Marks the informer as used and counts the read.
    fn known_at(
        &self,
        kind: &Kind,
        namespace: &Option<Arc<str>>,
        verb: Option<Verb>,
    ) -> Result<Option<InformerEntry>, Error> {
        let registry = self.registry.read();
        // CACHE-10: a stopped cache answers no read from memory.
        if registry.phase == CachePhase::Stopped {
            return Err(Error::Stopped { kind: kind.clone() });
        }
        let Some(entry) = registry.at(kind.gvk(), namespace) else {
            return Ok(None);
        };
        entry.touch();
        if let Some(verb) = verb {
            entry.count(verb);
        }
        Ok(Some(entry.clone()))
    }

    /// Returns the read counters of a kind; `None` without metrics.
    fn reads_of(&self, kind: &Kind) -> Option<Arc<ReadCounts>> {
        let metrics = self.options.metrics.as_ref()?;
        let mut reads = self.reads.lock();
        let reads = reads.entry(kind.gvk().clone());
        let counts = reads.or_insert_with(|| metrics.reads_of(kind.to_string()));
        Some(Arc::clone(counts))
    }

    /// Finds or creates the informer of a kind in a namespace, and calls `obtain` with it, before a new informer
    /// starts. Returns a guard that keeps the informer from ending as idle, and the result of `obtain`.
    fn entry<R>(
        &self,
        kind: &Kind,
        namespace: Option<Arc<str>>,
        purpose: Purpose,
        obtain: impl Fn(&InformerEntry) -> R,
    ) -> Result<(UseGuard, R), Error> {
        let informer_key = InformerKey {
            gvk: kind.gvk().clone(),
            namespace: namespace.clone(),
        };
        let (entry, new, coverage) = {
            let mut registry = self.registry.write();
            if registry.phase == CachePhase::Stopped {
                return Err(Error::Stopped { kind: kind.clone() });
            }
            // CACHE-17: the namespaces are read under the lock, so that a removed namespace gets no informer.
            let coverage = self.coverage(kind);
            Self::covered(&coverage, namespace.as_ref())?;
            let (entry, new) = registry.declare(informer_key.clone(), || {
                let advice = self.advice(&coverage, namespace);
                let options = self.informer_options(&advice, &informer_key);
                let untyped = UntypedInformer::new(kind.clone(), options);
                let reads = self.reads_of(kind);
                InformerEntry::new(advice, untyped, coverage.declared, reads)
            });
            // CACHE-8: the informer becomes permanent, or gets its use guard, while the lock is held. Otherwise it could
            // end as idle between the lookup and this call's use of it.
            if matches!(purpose, Purpose::Declare) {
                entry.make_permanent();
            }
            (entry.guard(), new, coverage)
        };
        if new {
            self.scope.index(&entry);
        }
        // `obtain` is called before the informer starts, so that its first requests cover what `obtain` needs.
        let read = obtain(&entry);
        if new {
            self.declared.notify_one();
        }
        if let Purpose::Read(caller) = purpose
            && new
            && !entry.is_permanent()
        {
            self.warn_undeclared(&coverage, caller);
        }
        Ok((entry, read))
    }

    /// Warns, once per kind, that a read started an informer of an undeclared kind: such an informer ends when idle,
    /// and lists again on the next read.
    fn warn_undeclared(&self, coverage: &Coverage, caller: &'static Location<'static>) {
        let kind = coverage.kind();
        if self.warned.lock().insert(kind.gvk().clone()) {
            warn!(
                kind = %kind.qualified_plural(),
                scope = %scope_text(coverage),
                %caller,
                "an undeclared read started an informer: declare the kind with `CacheOptions::by_object`"
            );
        } else {
            info!(
                kind = %kind.qualified_plural(),
                %caller,
                "an undeclared read started another informer of this kind"
            );
        }
    }

    /// Returns the failures of a first list that need no warning, because this program removes their cause.
    pub(crate) fn expected_at_first(&self, gvk: &Gvk) -> Vec<Reason> {
        let installs = has_kind(&self.installed, gvk).then_some(Reason::NotServed);
        let converts = has_kind(&self.converted, gvk).then_some(Reason::Server);
        installs.into_iter().chain(converts).collect()
    }

    /// Returns the facts about one informer that the messages about its failures use.
    pub(crate) fn advice(&self, coverage: &Arc<Coverage>, namespace: Option<Arc<str>>) -> Advice {
        Advice {
            coverage: Arc::clone(coverage),
            namespace,
            credentials: Arc::clone(&self.credentials),
            server: self.server_problem.clone(),
            is_installed: has_kind(&self.installed, coverage.kind().gvk()),
        }
    }

    fn informer_options(&self, advice: &Advice, informer_key: &InformerKey) -> InformerOptions {
        let (options, coverage) = (&self.options, &advice.coverage);
        let hook = options.on_watch_error.clone();
        let advice = advice.clone();
        let (written_versions, gvk) =
            (Arc::clone(&self.written_versions), informer_key.gvk.clone());
        let mut informer = InformerOptions::new()
            // RYOW-10: the version is read when the informer starts, possibly long after its declaration.
            .first_version(move || written_versions.of(&gvk))
            .watch_list(options.watch_list)
            .budget(self.budget.clone())
            .health(self.health.clone())
            .expected_at_first(self.expected_at_first(&informer_key.gvk))
            .failure_advice(move |reason| advice.remedy(reason));
        let settings = coverage.settings(informer_key.namespace.as_deref());
        let settings = settings.cloned().unwrap_or_default();
        informer = settings.applied_to(informer);
        if let Some(hook) = hook {
            let (kind, namespace) = (coverage.kind().clone(), informer_key.namespace.clone());
            informer = informer.on_failure(move |failed| {
                hook(&WatchError {
                    kind: kind.clone(),
                    namespace: namespace.clone(),
                    reason: failed.reason,
                    message: failed.message.clone(),
                    attempt: failed.attempt,
                });
            });
        }
        if let Some(metrics) = &options.metrics {
            informer = informer.metrics(metrics.informers().clone());
        }
        if let Some(filter) = self.shard_filter(coverage) {
            informer = informer.shards(filter.clone());
        }
        if let Some(seed) = options.seed {
            informer = informer.seed(seed ^ fingerprint(informer_key));
        }
        informer
    }

    /// Waits for a phase of the cache. `self` owns the sender, so the wait cannot fail.
    async fn reaches(&self, is: impl FnMut(&CachePhase) -> bool) {
        let mut phase = self.phase.subscribe();
        let _phase = phase.wait_for(is).await;
    }

    /// Waits until the cache runs, and then for the future that `says` returns for every informer that exists at that
    /// moment, at most for the sync timeout and until the cache stops. Returns these informers, without those that a
    /// read starts meanwhile. Returns `None` if the cache did not start in time.
    pub(crate) async fn wait_for_all<F: Future<Output = bool>>(
        &self,
        says: impl Fn(InformerEntry) -> F,
    ) -> Option<Vec<InformerEntry>> {
        let known = OnceLock::new();
        let all = async {
            self.reaches(|phase| *phase != CachePhase::Declaring).await;
            let entries = known.get_or_init(|| self.registry.read().entries());
            for entry in entries {
                says(entry.clone()).await;
            }
        };
        let bounded = timeout(self.options.sync_timeout, all);
        tokio::select! {
            biased;
            _elapsed = bounded => {}
            () = self.reaches(|phase| *phase == CachePhase::Stopped) => {
                known.get_or_init(|| self.registry.read().entries());
            }
        }
        known.into_inner()
    }
}

/// Hashes the key of an informer for the seed of its random delays, with the same result in every run.
fn fingerprint(informer_key: &InformerKey) -> u64 {
    let namespace = informer_key.namespace.as_deref().unwrap_or_default();
    // The hash is FNV, because the standard library's hash may change between its releases.
    let mut hasher = FnvHasher::default();
    hasher.write(format!("{}/{namespace}", informer_key.gvk).as_bytes());
    hasher.finish()
}

fn scope_text(coverage: &Coverage) -> String {
    let namespaces: Option<Vec<Arc<str>>> = coverage.informers().into_iter().collect();
    match namespaces {
        Some(namespaces) => namespaces.join(", "),
        None => "all namespaces".to_owned(),
    }
}

/// Returns whether a kind, in any version, is among `kinds`.
fn has_kind(kinds: &Mutex<Vec<Gvk>>, gvk: &Gvk) -> bool {
    kinds.lock().iter().any(|one| one.same_group_kind(gvk))
}
