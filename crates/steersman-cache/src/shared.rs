//! Driver: what the handles of one cache share: it declares informers, runs them, and waits for them.

mod run;

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use steersman_informer::{Budget, Informer, InformerOptions, Mirror, ServerHealth, Subscription};
use steersman_object::{Gvk, Kind, Object, ObjectKey, TypedObject};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::coverage::Coverage;
use crate::error::Error;
use crate::failure_advice::Advice;
use crate::informer_entry::{Declared, Readable, Stay, settled};
use crate::metrics::{Outcome, ReadCounts, Verb};
use crate::options::CacheOptions;
use crate::registry::{Phase, Registry, Slot};
use crate::type_map::ByType;
use crate::watch_error::WatchError;
use crate::written_versions::Floors;

pub(crate) use crate::shared::run::Running;

pub(crate) struct Shared {
    pub(crate) options: CacheOptions,
    pub(crate) registry: RwLock<Registry<Declared>>,
    coverages: Mutex<HashMap<Gvk, Arc<Coverage>>>,
    /// Kinds that a read started, and the log says so.
    told: Mutex<HashSet<Gvk>>,
    /// Where the reads of each kind are counted, if they are.
    reads: Mutex<HashMap<Gvk, Arc<ReadCounts>>>,
    /// The same by Rust type, so that a read does not put the names of its kind together.
    typed: RwLock<ByType<Arc<Coverage>>>,
    /// Whose credentials are used, for people; known from the run on.
    credentials: Arc<OnceLock<String>>,
    /// What all informers keep decoded, but those with a budget of their own.
    budget: Budget,
    /// What all informers know of the server (REFL-9).
    health: ServerHealth,
    /// What this process wrote, for first lists.
    pub(crate) floors: Arc<Floors>,
    /// Wakes the runner when something was declared.
    declared: Notify,
    /// Mirrors the registry's phase for those who wait.
    phase: watch::Sender<Phase>,
}

/// Why an informer is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// Someone declares it.
    Meant,
    /// A read or a subscription at this place needs it.
    Read(&'static Location<'static>),
}

impl Shared {
    pub(crate) fn new(options: CacheOptions) -> Self {
        Self {
            budget: Budget::new(options.decoded_budget),
            health: ServerHealth::new(options.concurrent_syncs),
            options,
            registry: RwLock::new(Registry::new()),
            coverages: Mutex::new(HashMap::new()),
            told: Mutex::default(),
            reads: Mutex::default(),
            typed: RwLock::default(),
            credentials: Arc::default(),
            floors: Arc::default(),
            declared: Notify::new(),
            phase: watch::Sender::new(Phase::Declaring),
        }
    }

    /// What the options say about a kind, worked out once.
    pub(crate) fn coverage(&self, kind: &Kind) -> Arc<Coverage> {
        let mut coverages = self.coverages.lock();
        if let Some(coverage) = coverages.get(kind.gvk()) {
            return Arc::clone(coverage);
        }
        let coverage = Arc::new(Coverage::of(kind, &self.options));
        coverages.insert(kind.gvk().clone(), Arc::clone(&coverage));
        coverage
    }

    /// What the options say about a kind that somebody asked for before.
    pub(crate) fn known(&self, gvk: &Gvk) -> Option<Arc<Coverage>> {
        self.coverages.lock().get(gvk).cloned()
    }

    /// As [`coverage`](Self::coverage), of a kind known at compile time.
    pub(crate) fn coverage_of<K: TypedObject>(&self) -> Arc<Coverage> {
        if let Some(coverage) = self.typed.read().get(&TypeId::of::<K>()) {
            return Arc::clone(coverage);
        }
        let coverage = self.coverage(&Kind::of::<K>());
        let mut typed = self.typed.write();
        typed.insert(TypeId::of::<K>(), Arc::clone(&coverage));
        coverage
    }

    /// Whether reads of a kind are answered from memory.
    pub(crate) fn is_cached(&self, coverage: &Coverage) -> bool {
        coverage.is_cached(|| {
            let registry = self.registry.read();
            let gvk = coverage.kind().gvk();
            coverage.informers().into_iter().any(|namespace| {
                let entry = registry.at(gvk, &namespace);
                entry.is_some_and(Declared::is_meant)
            })
        })
    }

    /// An object of a kind known at compile time, as [`at_hand`](Self::at_hand).
    pub(crate) fn typed_at_hand<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let typed = self.typed.read();
        self.at_hand(typed.get(&TypeId::of::<K>())?, key)
    }

    /// An object that is at hand in an informer that may be read: this waits for nobody who syncs or
    /// changes it, asks for nothing, and counts as the read that it saves. None says nothing.
    pub(crate) fn at_hand<K: Object>(
        &self,
        coverage: &Coverage,
        key: &ObjectKey,
    ) -> Option<Arc<K>> {
        let kind = coverage.kind();
        let place = coverage.place_of(key)?;
        let registry = self.registry.read();
        // CACHE-10
        if registry.phase() == Phase::Stopped {
            return None;
        }
        let entry = registry.at(kind.gvk(), place)?;
        coverage.allows_read(entry.is_meant()).ok()?;
        entry.touch();
        let found = entry.at_hand(&key.placed(kind))?;
        entry.count(Verb::Get);
        Some(found)
    }

    /// The informer of a place, once it may be read.
    pub(crate) async fn readable<K: Object>(
        &self,
        coverage: &Coverage,
        place: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> Result<Informer<K>, Error> {
        let look = |entry: &Declared| entry.informer(false);
        self.there(coverage, place, verb, caller, look).await
    }

    /// As [`readable`](Self::readable), for those who pass over the objects once: where nobody looks at
    /// these as a `K`, nobody does after that (VIEW-5).
    pub(crate) async fn passable<K: Object>(
        &self,
        coverage: &Coverage,
        place: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
    ) -> Result<Mirror, Error> {
        let need = |entry: &Declared| {
            entry.mirror().need::<K>();
            entry.mirror().clone()
        };
        self.there(coverage, place, verb, caller, need).await
    }

    /// The informer of a place where its objects are looked at as a `K` already, and may be read.
    pub(crate) fn looked_at<K: Object>(
        &self,
        kind: &Kind,
        place: &Option<Arc<str>>,
        verb: Option<Verb>,
    ) -> Option<Informer<K>> {
        // Of a cache that has stopped there is none: whoever goes on learns that.
        let entry = self.known_at(kind, place, None).ok()??;
        let informer = entry.looked_at().filter(Informer::has_synced)?;
        if let Some(verb) = verb {
            entry.count(verb);
        }
        Some(informer)
    }

    /// What is read of a place, once it is there.
    async fn there<R: Readable>(
        &self,
        coverage: &Coverage,
        place: Option<Arc<str>>,
        verb: Option<Verb>,
        caller: &'static Location<'static>,
        look: impl Fn(&Declared) -> R,
    ) -> Result<R, Error> {
        let kind = coverage.kind();
        let known = self.known_at(kind, &place, verb)?;
        let is_counted = known.is_some();
        coverage.allows_read(known.as_ref().is_some_and(Declared::is_meant))?;
        if let Some(read) = known.as_ref().map(&look)
            && read.is_there()
        {
            return Ok(read);
        }
        // CACHE-8: it stays as long as this waits.
        let (entry, read) = self.entry(kind, place, Use::Read(caller), look)?;
        {
            let registry = self.registry.read();
            if let Some(verb) = verb.filter(|_| !is_counted) {
                entry.count(verb);
            }
            if registry.phase() == Phase::Declaring {
                return Err(Error::NotStarted { kind: kind.clone() });
            }
        }
        let started = Instant::now();
        let outcome = self.outcome(&read).await;
        if let Some(metrics) = &self.options.metrics {
            metrics.waited(&kind.to_string(), outcome, started.elapsed());
        }
        match outcome {
            Outcome::Synced => Ok(read),
            Outcome::Stopped => Err(Error::Stopped { kind: kind.clone() }),
            // CACHE-2: what is known is told at once.
            Outcome::Unavailable => Err(Error::Unavailable(entry.unsynced())),
            Outcome::Timeout => Err(Error::SyncTimeout {
                timeout: self.options.sync_timeout,
                unsynced: vec![entry.unsynced()],
            }),
        }
    }

    /// Waits until an informer has synced or can say why not, no longer than a sync may take.
    async fn outcome(&self, read: &impl Readable) -> Outcome {
        let settled = tokio::select! {
            // What there is to say is said, whatever else happens at the same moment.
            biased;
            settled = timeout(self.options.sync_timeout, settled(read)) => settled,
            () = self.reaches(|phase| *phase == Phase::Stopped) => return Outcome::Stopped,
        };
        match settled {
            // CACHE-10: informers end before the cache has.
            Ok(_) if self.registry.read().phase() == Phase::Stopped => Outcome::Stopped,
            Ok(true) => Outcome::Synced,
            Ok(false) => Outcome::Unavailable,
            Err(_) => Outcome::Timeout,
        }
    }

    pub(crate) fn declare<K: Object>(
        &self,
        kind: &Kind,
        place: Option<Arc<str>>,
        purpose: Use,
    ) -> Result<Informer<K>, Error> {
        let meant = matches!(purpose, Use::Meant);
        let look = |entry: &Declared| entry.informer(meant);
        Ok(self.entry(kind, place, purpose, look)?.1)
    }

    /// Subscribes to the informer of a place, where a read would be allowed.
    pub(crate) fn subscribe<K: Object>(
        &self,
        coverage: &Coverage,
        place: Option<Arc<str>>,
        caller: &'static Location<'static>,
    ) -> Result<Subscription<K>, Error> {
        let kind = coverage.kind();
        let known = self.known_at(kind, &place, None)?;
        coverage.allows_read(known.as_ref().is_some_and(Declared::is_meant))?;
        // CACHE-8: it stays until it is known to have a subscriber.
        let look = |entry: &Declared| entry.informer::<K>(false);
        let (_stay, informer) = self.entry(kind, place, Use::Read(caller), look)?;
        Ok(informer.subscribe())
    }

    /// The informer of a place, if there is one; somebody uses it, and reads count.
    fn known_at(
        &self,
        kind: &Kind,
        place: &Option<Arc<str>>,
        verb: Option<Verb>,
    ) -> Result<Option<Declared>, Error> {
        let registry = self.registry.read();
        // CACHE-10
        if registry.phase() == Phase::Stopped {
            return Err(Error::Stopped { kind: kind.clone() });
        }
        let Some(entry) = registry.at(kind.gvk(), place) else {
            return Ok(None);
        };
        entry.touch();
        if let Some(verb) = verb {
            entry.count(verb);
        }
        Ok(Some(entry.clone()))
    }

    /// Where the reads of a kind are counted, if they are.
    fn reads_of(&self, kind: &Kind) -> Option<Arc<ReadCounts>> {
        let metrics = self.options.metrics.as_ref()?;
        let mut reads = self.reads.lock();
        let reads = reads.entry(kind.gvk().clone());
        let counts = reads.or_insert_with(|| metrics.reads_of(kind.to_string()));
        Some(Arc::clone(counts))
    }

    /// The informer of a place, which begins where there is none, and what `look` makes of it.
    fn entry<R>(
        &self,
        kind: &Kind,
        place: Option<Arc<str>>,
        purpose: Use,
        look: impl Fn(&Declared) -> R,
    ) -> Result<(Stay, R), Error> {
        let coverage = self.coverage(kind);
        let slot = Slot {
            gvk: kind.gvk().clone(),
            namespace: place.clone(),
        };
        let (entry, new) = {
            let mut registry = self.registry.write();
            if registry.phase() == Phase::Stopped {
                return Err(Error::Stopped { kind: kind.clone() });
            }
            let (entry, new) = registry.declare(slot.clone(), || {
                let advice = Advice {
                    coverage: Arc::clone(&coverage),
                    namespace: place,
                    credentials: Arc::clone(&self.credentials),
                };
                let options = self.informer_options(&advice, &slot);
                let mirror = Mirror::new(kind.clone(), options);
                let reads = self.reads_of(kind);
                Declared::new(advice, mirror, coverage.is_declared(), reads)
            });
            // Under the lock, so that nobody ends it (CACHE-8).
            if matches!(purpose, Use::Meant) {
                entry.mean();
            }
            (entry.stay(), new)
        };
        // Before it starts, so that what is asked for is what is needed.
        let read = look(&entry);
        if new {
            self.declared.notify_one();
        }
        if let Use::Read(caller) = purpose
            && new
            && !entry.is_meant()
        {
            self.tell_undeclared(&coverage, caller);
        }
        Ok((entry, read))
    }

    /// Warns once of a kind that nothing declares: it may end as it is not used, and begin again.
    fn tell_undeclared(&self, coverage: &Coverage, caller: &'static Location<'static>) {
        let kind = coverage.kind();
        if self.told.lock().insert(kind.gvk().clone()) {
            warn!(
                kind = %kind.qualified_plural(),
                scope = %scope_text(coverage),
                %caller,
                "a read starts an informer that nothing declared: declare the kind in `CacheOptions::by_object`"
            );
        } else {
            info!(
                kind = %kind.qualified_plural(),
                %caller,
                "a read starts another informer of a kind that nothing declared"
            );
        }
    }

    fn informer_options(&self, advice: &Advice, slot: &Slot) -> InformerOptions {
        let (options, coverage) = (&self.options, &advice.coverage);
        let hook = options.on_watch_error.0.clone();
        let advice = advice.clone();
        let (floors, gvk) = (Arc::clone(&self.floors), slot.gvk.clone());
        let mut informer = InformerOptions::new()
            // RYOW-10: asked as the informer starts, which may be long after it was declared.
            .first_version(move || floors.of(&gvk))
            .watch_list(options.watch_list)
            .budget(self.budget.clone())
            .health(self.health.clone())
            .failure_advice(move |reason| advice.way_out(reason));
        let settings = coverage.settings(slot.namespace.as_deref());
        let settings = settings.cloned().unwrap_or_default();
        informer = settings.applied_to(informer);
        if let Some(hook) = hook {
            let (kind, namespace) = (coverage.kind().clone(), slot.namespace.clone());
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
        if let Some(seed) = options.seed {
            informer = informer.seed(seed ^ fingerprint(slot));
        }
        informer
    }

    /// Waits for a phase. The sender lives in the cache itself, so the wait cannot fail.
    async fn reaches(&self, is: impl FnMut(&Phase) -> bool) {
        let mut phase = self.phase.subscribe();
        let _phase = phase.wait_for(is).await;
    }

    /// Waits for what every informer known once the cache runs has to say, as long as it runs, and no
    /// longer than a sync may take. Answers those informers: what a read starts meanwhile is not waited
    /// for, so it is not judged either. None where the cache was not started in time.
    pub(crate) async fn every<F: Future<Output = bool>>(
        &self,
        says: impl Fn(Declared) -> F,
    ) -> Option<Vec<Declared>> {
        let known = OnceLock::new();
        let all = async {
            self.reaches(|phase| *phase != Phase::Declaring).await;
            let entries = known.get_or_init(|| self.registry.read().entries());
            for entry in entries {
                says(entry.clone()).await;
            }
        };
        let bounded = timeout(self.options.sync_timeout, all);
        tokio::select! {
            _elapsed = bounded => {}
            () = self.reaches(|phase| *phase == Phase::Stopped) => {
                known.get_or_init(|| self.registry.read().entries());
            }
        }
        known.into_inner()
    }
}

/// A number of its own for each slot, the same in every run.
fn fingerprint(slot: &Slot) -> u64 {
    let place = slot.namespace.as_deref().unwrap_or_default();
    let text = format!("{}/{place}", slot.gvk);
    // FNV-1a: any spread will do, it only has to be fixed.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn scope_text(coverage: &Coverage) -> String {
    let places: Option<Vec<Arc<str>>> = coverage.informers().into_iter().collect();
    match places {
        Some(places) => places.join(", "),
        None => "all namespaces".to_owned(),
    }
}
