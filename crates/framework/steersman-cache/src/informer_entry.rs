//! Driver: runs one informer from its start to its removal, gives out its typed handles, and waits for its sync.

use std::any::TypeId;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use steersman_api::{ApiListWatch, FieldManagers, kube_client};
use steersman_informer::{Informer, InformerState, UntypedInformer};
use steersman_object::{Kind, Object, ObjectKey};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::failure_advice::Advice;
use crate::metrics::{ReadCounts, Verb};
use crate::settings::Settings;
use crate::type_map::TypeMap;
use crate::unsynced::{InformerFailure, InformerReport, Unsynced, UnsyncedReason};

/// The time after which an informer that neither syncs nor fails lets another informer begin its first sync (CACHE-5).
const TURN: Duration = Duration::from_secs(30);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One informer in the registry of the cache, with the record of its use. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "InformerEntry {{ kind: {:?}, namespace: {:?}, types: {:?}, .. }}",
    self.kind(), inner.advice.namespace, *inner.types.read()
)]
pub(crate) struct InformerEntry {
    inner: Arc<EntryState>,
}

struct EntryState {
    advice: Advice,
    untyped: UntypedInformer,
    /// The typed handles (views) by the Rust type that each decodes the objects as.
    types: RwLock<TypeMap>,
    /// Whether options, a controller, an index or a caller declared the informer. A declared informer never ends for
    /// idleness.
    permanent: AtomicBool,
    /// Whether the informer was read since the last check of idle informers.
    used: AtomicBool,
    /// The number of callers that wait for the first sync or subscribe at the moment: see [`UseGuard`].
    guards: AtomicUsize,
    /// The number of optional watches that keep the informer at the moment: see [`HoldGuard`].
    holds: AtomicUsize,
    /// Counts the reads of the kind; `None` without metrics.
    reads: Option<Arc<ReadCounts>>,
    removed: CancellationToken,
    /// Whether the informer ended because its namespace was removed from the cache.
    has_left_scope: AtomicBool,
}

/// Keeps an informer from ending as idle while a caller waits for its first sync or subscribes.
pub(crate) struct UseGuard {
    entry: InformerEntry,
}

/// Makes the informer count as declared, so that it does not end as idle, until the guard is dropped. A watch of a kind
/// that the server may not serve (`Watch::optional`) holds such a guard as long as it runs.
pub(crate) struct HoldGuard {
    guard: UseGuard,
}

impl InformerEntry {
    pub(crate) fn new(
        advice: Advice,
        untyped: UntypedInformer,
        permanent: bool,
        reads: Option<Arc<ReadCounts>>,
    ) -> Self {
        let inner = EntryState {
            advice,
            untyped,
            types: RwLock::default(),
            permanent: AtomicBool::new(permanent),
            used: AtomicBool::new(true),
            guards: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            reads,
            removed: CancellationToken::new(),
            has_left_scope: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn advice(&self) -> &Advice {
        &self.inner.advice
    }

    pub(crate) fn kind(&self) -> &Kind {
        self.inner.advice.coverage.kind()
    }

    /// Returns the typed handle (view) that decodes the objects as `K`, created if needed. The view is permanent if
    /// `permanent` is set or the options declare the type (CACHE-15); otherwise it is dropped when no read has used it
    /// for a while.
    pub(crate) fn informer<K: Object>(&self, permanent: bool) -> Informer<K> {
        let coverage = &self.inner.advice.coverage;
        let permanent = permanent || coverage.types.contains(&TypeId::of::<K>());
        if let Some(known) = self.inner.types.read().get::<Informer<K>>(permanent) {
            return known.clone();
        }
        // The view (typed handle) is created outside the lock, because that decodes the stored objects. Two views of
        // one type share their state.
        let informer = self.inner.untyped.view::<K>();
        self.inner.types.write().put(informer.clone(), permanent);
        informer
    }

    /// Returns the typed handle (view) for `K` if it exists, and marks it as used.
    pub(crate) fn existing_view<K: Object>(&self) -> Option<Informer<K>> {
        self.inner.types.read().get::<Informer<K>>(false).cloned()
    }

    /// Returns an object if the typed handle (view) for `K` exists and has the object decoded. Never waits for a lock,
    /// so `None` does not mean that the object is absent.
    pub(crate) fn decoded<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let types = self.inner.types.try_read()?;
        types.get::<Informer<K>>(false)?.as_store().get_decoded(key)
    }

    /// Drops the typed handles (views) that no read has used since the last sweep.
    pub(crate) fn sweep(&self) {
        self.inner.types.write().sweep();
    }

    pub(crate) fn untyped(&self) -> &UntypedInformer {
        &self.inner.untyped
    }

    /// Marks the informer as declared, so that it never ends for idleness.
    pub(crate) fn make_permanent(&self) {
        self.inner.permanent.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_permanent(&self) -> bool {
        self.inner.permanent.load(Ordering::Relaxed)
    }

    /// Returns whether the informer is declared, for good or as long as an optional watch keeps it.
    pub(crate) fn is_declared(&self) -> bool {
        self.is_permanent() || self.inner.holds.load(Ordering::Relaxed) > 0
    }

    /// Marks the informer as read, so that it does not end as idle (CACHE-8). The caller holds the registry's lock: the
    /// end of idle informers is decided under this lock, too, so no read is missed.
    pub(crate) fn touch(&self) {
        // The flag is stored only if it changes, so that concurrent readers keep the cache line shared.
        if !self.inner.used.load(Ordering::Relaxed) {
            self.inner.used.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self, verb: Verb) {
        if let Some(reads) = &self.inner.reads {
            reads.count(verb);
        }
    }

    pub(crate) fn guard(&self) -> UseGuard {
        self.inner.guards.fetch_add(1, Ordering::Relaxed);
        let entry = self.clone();
        UseGuard { entry }
    }

    /// Returns whether the informer is in use, or was used since the previous call.
    pub(crate) fn take_used(&self) -> bool {
        let held = self.is_held();
        self.inner.used.swap(false, Ordering::Relaxed)
            || held
            || self.inner.untyped.subscribers() > 0
    }

    /// Returns whether the informer may end as idle: undeclared, and not used since [`take_used`](Self::take_used).
    pub(crate) fn may_end(&self) -> bool {
        !self.is_permanent() && !self.is_held() && !self.inner.used.load(Ordering::Relaxed)
    }

    fn is_held(&self) -> bool {
        self.inner.guards.load(Ordering::Acquire) > 0
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.inner.removed.is_cancelled()
    }

    /// Ends the informer for good, even if it was never started.
    ///
    /// When this returns, its subscribers take no further delivery (CACHE-7), although its task is cancelled later.
    pub(crate) fn end(&self) {
        self.inner.removed.cancel();
        self.inner.untyped.end();
    }

    /// Ends the informer because its namespace was removed from the scope of the cache (CACHE-17).
    pub(crate) fn leave_scope(&self) {
        // The reason is set before the subscriptions end, so that subscribers find it.
        self.inner.has_left_scope.store(true, Ordering::Release);
        self.end();
    }

    /// Returns whether the informer ended because its namespace was removed from the scope of the cache.
    pub(crate) fn has_left_scope(&self) -> bool {
        self.inner.has_left_scope.load(Ordering::Acquire)
    }

    /// Returns the task of the informer. The task first waits for a permit of `turns`, so that only a limited number of
    /// informers run their first sync at the same time.
    pub(crate) fn run(
        &self,
        client: kube_client::Client,
        managers: FieldManagers,
        turns: Arc<Semaphore>,
        cancel: &CancellationToken,
    ) -> Task {
        let namespace = self.inner.advice.namespace.as_deref().map(Into::into);
        let advice = &self.inner.advice;
        let settings = advice.coverage.settings(advice.namespace.as_deref());
        let keep = settings.is_some_and(Settings::keeps_managed_fields);
        let list_watch = ApiListWatch::new(client, self.kind().clone(), namespace);
        let list_watch = list_watch
            .keep_managed_fields(keep)
            .recognise_applies(managers);
        let cancel = cancel.child_token();
        let run = self.inner.untyped.run(list_watch, cancel.clone());
        let this = self.clone();
        Box::pin(async move {
            // CACHE-5: first syncs are limited. An informer that is cancelled while it waits for a permit still runs,
            // because its end notifies the tasks that wait for it.
            // The branches are polled in a fixed order, so that simulations with one seed are alike.
            let turn = tokio::select! {
                biased;
                turn = turns.acquire_owned() => turn.ok(),
                () = cancel.cancelled() => None,
                () = this.inner.removed.cancelled() => None,
            };
            if this.inner.removed.is_cancelled() {
                // CACHE-7: the removal has ended this informer before its start, so nothing is run.
                return;
            }
            let first = async {
                // CACHE-2: an informer that hangs returns its permit after `TURN`, so that it delays no other kind.
                let _settled = tokio::select! {
                biased;
                    settled = timeout(TURN, this.settled()) => settled.is_ok(),
                    () = this.inner.removed.cancelled() => true,
                };
                drop(turn);
                this.inner.removed.cancelled().await;
                cancel.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = run => {}
                () = first => {}
            }
        })
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.inner.untyped.has_synced()
    }

    /// Returns a report on the informer's state, for an informer that has not synced.
    pub(crate) fn unsynced(&self) -> Unsynced {
        self.inner.advice.unsynced(&self.inner.untyped.state())
    }

    pub(crate) fn report(&self) -> InformerReport {
        let untyped = &self.inner.untyped;
        InformerReport {
            kind: self.kind().clone(),
            namespace: self.inner.advice.namespace.as_deref().map(Into::into),
            state: untyped.state(),
            has_synced: self.has_synced(),
            is_declared: self.is_declared(),
            is_metadata_only: untyped.is_metadata_only(),
            subscribers: untyped.subscribers(),
            activity_due: untyped.activity_due(),
            usage: untyped.usage(),
        }
    }

    /// Returns a report if the informer does not follow its server.
    pub(crate) fn failure(&self) -> Option<InformerFailure> {
        let unsynced = self.unsynced();
        let has_synced = self.has_synced();
        let is_failure = match unsynced.reason {
            UnsyncedReason::Failing(_) | UnsyncedReason::Stopped => true,
            // An informer that a read started may be started again by a read, so its incomplete first sync is no
            // failure.
            UnsyncedReason::NotStarted | UnsyncedReason::Syncing => {
                !has_synced && self.is_permanent()
            }
        };
        is_failure.then(|| InformerFailure::new(unsynced, has_synced))
    }

    /// Waits until the informer has synced, fails, or has stopped. Returns whether it has synced.
    ///
    /// Cancel safe.
    pub(crate) async fn settled(&self) -> bool {
        settled(&self.inner.untyped).await
    }

    /// Waits until the informer has synced or stopped. Returns whether it has synced.
    ///
    /// Cancel safe.
    pub(crate) async fn synced(&self) -> bool {
        let ends =
            |state: &InformerState| matches!(state, InformerState::Synced | InformerState::Stopped);
        until(&self.inner.untyped, ends).await
    }
}

/// A typed or untyped handle of an informer, for waits until it may be read.
pub(crate) trait Readable {
    fn has_synced(&self) -> bool;

    fn state_changes(&self) -> watch::Receiver<InformerState>;
}

impl<K: Object> Readable for Informer<K> {
    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn state_changes(&self) -> watch::Receiver<InformerState> {
        self.state_changes()
    }
}

impl Readable for UntypedInformer {
    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn state_changes(&self) -> watch::Receiver<InformerState> {
        self.state_changes()
    }
}

/// Waits until the informer of the handle `read` has synced, fails, or has stopped. Returns whether it has synced.
///
/// Cancel safe.
pub(crate) async fn settled(read: &impl Readable) -> bool {
    let ends = |state: &InformerState| {
        matches!(
            state,
            InformerState::Synced | InformerState::Degraded { .. } | InformerState::Stopped
        )
    };
    until(read, ends).await
}

async fn until(read: &impl Readable, ends: impl Fn(&InformerState) -> bool) -> bool {
    let mut changes = read.state_changes();
    loop {
        if read.has_synced() {
            return true;
        }
        let ended = ends(&changes.borrow_and_update());
        if ended || changes.changed().await.is_err() {
            return read.has_synced();
        }
    }
}

impl Deref for UseGuard {
    type Target = InformerEntry;

    fn deref(&self) -> &InformerEntry {
        &self.entry
    }
}

impl HoldGuard {
    pub(crate) fn new(guard: UseGuard) -> Self {
        guard.inner.holds.fetch_add(1, Ordering::Relaxed);
        Self { guard }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.guard.inner.holds.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        // `used` is set before the guard is dropped, so that a check which sees no guard sees the use.
        self.entry.inner.used.store(true, Ordering::Relaxed);
        self.entry.inner.guards.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_informer::InformerOptions;

    use super::*;
    use crate::coverage::Coverage;
    use crate::options::CacheOptions;
    use crate::server_problem::ServerProblem;

    /// CACHE-8: a use between the check and the removal keeps the informer.
    #[test]
    fn a_use_after_the_idle_check_keeps_the_informer() {
        let (kind, options) = (Kind::of::<ConfigMap>(), CacheOptions::new());
        let advice = Advice {
            coverage: Arc::new(Coverage::of(&kind, &options, &options.namespaces)),
            namespace: None,
            credentials: Arc::default(),
            server: ServerProblem::default(),
            is_installed: false,
        };
        let entry = InformerEntry::new(
            advice,
            UntypedInformer::new(kind, InformerOptions::new()),
            false,
            None,
        );
        let idle = || !entry.take_used() && entry.may_end();
        assert!(!idle(), "a new entry counts as used");
        assert!(idle());
        entry.touch();
        assert!(!entry.may_end() && !idle() && idle());
        let guard = entry.guard();
        assert!(!idle() && !idle());
        // A guard sets `used` only when it is dropped; until then the guard alone keeps the informer.
        entry.take_used();
        assert!(!entry.may_end());
        drop(guard);
        assert!(!entry.may_end() && !idle() && idle());
        entry.make_permanent();
        assert!(!entry.may_end());
    }
}
