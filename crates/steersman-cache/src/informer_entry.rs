//! Driver: runs one informer, whatever it is looked at as, and waits for it.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use steersman_api::{ApiListWatch, kube_client};
use steersman_informer::{Informer, Mirror, State};
use steersman_object::{Kind, Object, ObjectKey};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::failure_advice::Advice;
use crate::metrics::{ReadCounts, Verb};
use crate::settings::Settings;
use crate::type_map::Types;
use crate::unsynced::{Trouble, Unsynced, UnsyncedReason};

/// How long the turn of an informer that does not settle lasts.
const TURN: Duration = Duration::from_secs(30);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An informer of a kind in a namespace, as the registry holds it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Declared {
    inner: Arc<Inner>,
}

struct Inner {
    advice: Advice,
    mirror: Mirror,
    /// What its objects are looked at as: one informer handle for each type.
    types: RwLock<Types>,
    /// Whether somebody meant this informer to be: options, a controller, an index.
    meant: AtomicBool,
    /// Whether somebody read it since the last look.
    used: AtomicBool,
    /// How many use it at the moment, for longer than a look into memory takes.
    stays: AtomicUsize,
    /// Where reads of its kind are counted.
    reads: Option<Arc<ReadCounts>>,
    /// Fires when it is removed.
    removed: CancellationToken,
}

/// An informer that is kept as long as this is: its first sync is waited for, or a subscription is made.
pub(crate) struct Stay {
    entry: Declared,
}

impl Declared {
    pub(crate) fn new(
        advice: Advice,
        mirror: Mirror,
        meant: bool,
        reads: Option<Arc<ReadCounts>>,
    ) -> Self {
        let inner = Inner {
            advice,
            mirror,
            types: RwLock::default(),
            meant: AtomicBool::new(meant),
            used: AtomicBool::new(true),
            stays: AtomicUsize::new(0),
            reads,
            removed: CancellationToken::new(),
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

    /// The informer, whose objects are looked at as a `K` from now on: for good where that is
    /// `meant` or the options declare the type (CACHE-15), else as long as they are read as one now and
    /// then.
    pub(crate) fn informer<K: Object>(&self, meant: bool) -> Informer<K> {
        let coverage = &self.inner.advice.coverage;
        let meant = meant || coverage.is_declared_as(TypeId::of::<K>());
        if let Some(known) = self.inner.types.read().get::<Informer<K>>(meant) {
            return known.clone();
        }
        // Decodes what is there, so without the lock; all views of one type are one.
        let informer = self.inner.mirror.view::<K>();
        self.inner.types.write().put(informer.clone(), meant);
        informer
    }

    /// The informer, where its objects are looked at as a `K` already; somebody does so now.
    pub(crate) fn looked_at<K: Object>(&self) -> Option<Informer<K>> {
        self.inner.types.read().get::<Informer<K>>(false).cloned()
    }

    /// One of its objects, where it is looked at as a `K` and is at hand: this waits for nobody, and
    /// shares nothing but the object. None says nothing.
    pub(crate) fn at_hand<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let types = self.inner.types.try_read()?;
        types.get::<Informer<K>>(false)?.as_store().get_at_hand(key)
    }

    /// Stops looking at the objects as types that nobody has read them as for a while.
    pub(crate) fn sweep(&self) {
        self.inner.types.write().sweep();
    }

    /// The informer, of no type.
    pub(crate) fn mirror(&self) -> &Mirror {
        &self.inner.mirror
    }

    /// Notes that it was declared on purpose.
    pub(crate) fn mean(&self) {
        self.inner.meant.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_meant(&self) -> bool {
        self.inner.meant.load(Ordering::Relaxed)
    }

    /// Notes that it is read, for CACHE-8: under the registry's lock, as is the decision that it ends.
    pub(crate) fn touch(&self) {
        // Most reads find it noted, and then only look: other threads keep what they know of it.
        if !self.inner.used.load(Ordering::Relaxed) {
            self.inner.used.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a read.
    pub(crate) fn count(&self, verb: Verb) {
        if let Some(reads) = &self.inner.reads {
            reads.count(verb);
        }
    }

    /// As [`touch`](Self::touch), for longer.
    pub(crate) fn stay(&self) -> Stay {
        self.inner.stays.fetch_add(1, Ordering::Relaxed);
        let entry = self.clone();
        Stay { entry }
    }

    /// Whether it is in use, or was since this was asked last.
    pub(crate) fn take_used(&self) -> bool {
        let held = self.is_held();
        self.inner.used.swap(false, Ordering::Relaxed)
            || held
            || self.inner.mirror.subscribers() > 0
    }

    /// Whether nobody declared it, and nobody has come since it was found idle.
    pub(crate) fn may_end(&self) -> bool {
        !self.is_meant() && !self.is_held() && !self.inner.used.load(Ordering::Relaxed)
    }

    fn is_held(&self) -> bool {
        self.inner.stays.load(Ordering::Acquire) > 0
    }

    /// Whether it was removed from the cache.
    pub(crate) fn is_removed(&self) -> bool {
        self.inner.removed.is_cancelled()
    }

    /// Ends it for good, whether it runs or never did.
    pub(crate) fn end(&self) {
        self.inner.removed.cancel();
        self.inner.mirror.end_unstarted();
    }

    /// The informer's whole life. It begins once there is a turn for its first sync.
    pub(crate) fn run(
        &self,
        client: kube_client::Client,
        turns: Arc<Semaphore>,
        cancel: &CancellationToken,
    ) -> Task {
        let namespace = self.inner.advice.namespace.as_deref().map(Into::into);
        let advice = &self.inner.advice;
        let settings = advice.coverage.settings(advice.namespace.as_deref());
        let keep = settings.is_some_and(Settings::keeps_managed_fields);
        let list_watch = ApiListWatch::new(client, self.kind().clone(), namespace);
        let list_watch = list_watch.keep_managed_fields(keep);
        let cancel = cancel.child_token();
        let run = self.inner.mirror.run(list_watch, cancel.clone());
        let this = self.clone();
        Box::pin(async move {
            // CACHE-5. One that was cancelled before its turn runs all the same: that is how those
            // who wait for it learn of the end.
            let turn = tokio::select! {
                turn = turns.acquire_owned() => turn.ok(),
                () = cancel.cancelled() => None,
                () = this.inner.removed.cancelled() => None,
            };
            if this.inner.removed.is_cancelled() {
                // CACHE-7: whoever removed it has ended it, as it never ran.
                return;
            }
            let first = async {
                // CACHE-2: one that hangs does not keep the others waiting for good.
                let _settled = tokio::select! {
                    settled = timeout(TURN, this.settled()) => settled.is_ok(),
                    () = this.inner.removed.cancelled() => true,
                };
                drop(turn);
                this.inner.removed.cancelled().await;
                cancel.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = run => {}
                () = first => {}
            }
        })
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.inner.mirror.has_synced()
    }

    /// What is known about it while it has not synced.
    pub(crate) fn unsynced(&self) -> Unsynced {
        self.inner.advice.unsynced(&self.inner.mirror.state())
    }

    /// What keeps it from following its server, if anything does.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let unsynced = self.unsynced();
        let has_synced = self.has_synced();
        let is_trouble = match unsynced.reason {
            UnsyncedReason::Failing(_) | UnsyncedReason::Stopped => true,
            // An informer that a read started is at its first sync now and then.
            UnsyncedReason::NotStarted | UnsyncedReason::Syncing => !has_synced && self.is_meant(),
        };
        is_trouble.then(|| Trouble::new(unsynced, has_synced))
    }

    /// Waits until it has synced, or has something to say about why not. True once it synced.
    ///
    /// Cancel safe.
    pub(crate) async fn settled(&self) -> bool {
        let mirror = &self.inner.mirror;
        until(mirror.state_changes(), || mirror.has_synced(), is_settled).await
    }

    /// Waits until it has synced; false when it stopped before.
    ///
    /// Cancel safe.
    pub(crate) async fn synced(&self) -> bool {
        let mirror = &self.inner.mirror;
        let ends = |state: &State| matches!(state, State::Synced | State::Stopped);
        until(mirror.state_changes(), || mirror.has_synced(), ends).await
    }
}

/// What is read of an informer, which is there once it has synced.
pub(crate) trait Readable {
    fn is_there(&self) -> bool;

    fn state_changes(&self) -> watch::Receiver<State>;
}

/// Objects that are looked at as a `K`.
impl<K: Object> Readable for Informer<K> {
    fn is_there(&self) -> bool {
        self.has_synced()
    }

    fn state_changes(&self) -> watch::Receiver<State> {
        self.state_changes()
    }
}

/// As much of the objects as somebody needs.
impl Readable for Mirror {
    fn is_there(&self) -> bool {
        self.has_synced()
    }

    fn state_changes(&self) -> watch::Receiver<State> {
        self.state_changes()
    }
}

/// As [`Declared::settled`], of what is read.
///
/// Cancel safe.
pub(crate) async fn settled(read: &impl Readable) -> bool {
    until(read.state_changes(), || read.is_there(), is_settled).await
}

fn is_settled(state: &State) -> bool {
    matches!(
        state,
        State::Synced | State::Degraded { .. } | State::Stopped
    )
}

async fn until(
    mut changes: watch::Receiver<State>,
    synced: impl Fn() -> bool,
    ends: impl Fn(&State) -> bool,
) -> bool {
    loop {
        if synced() {
            return true;
        }
        let ended = ends(&changes.borrow_and_update());
        if ended || changes.changed().await.is_err() {
            return synced();
        }
    }
}

impl Deref for Stay {
    type Target = Declared;

    fn deref(&self) -> &Declared {
        &self.entry
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // First: whoever sees that nobody stays sees that somebody did.
        self.entry.inner.used.store(true, Ordering::Relaxed);
        self.entry.inner.stays.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared")
            .field("kind", self.kind())
            .field("namespace", &self.inner.advice.namespace)
            .field("types", &*self.inner.types.read())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_informer::InformerOptions;

    use super::*;
    use crate::coverage::Coverage;
    use crate::options::CacheOptions;

    /// CACHE-8: between the look that finds it idle and its end, anybody may come.
    #[test]
    fn who_comes_after_the_look_keeps_it() {
        let kind = Kind::of::<ConfigMap>();
        let advice = Advice {
            coverage: Arc::new(Coverage::of(&kind, &CacheOptions::new())),
            namespace: None,
            credentials: Arc::default(),
        };
        let entry = Declared::new(
            advice,
            Mirror::new(kind, InformerOptions::new()),
            false,
            None,
        );
        let idle = || !entry.take_used() && entry.may_end();
        assert!(!idle(), "it was made for a use");
        assert!(idle());
        entry.touch();
        assert!(!entry.may_end() && !idle() && idle());
        let stay = entry.stay();
        assert!(!idle() && !idle());
        // Its use is noted as it ends: until then the stay alone keeps it.
        entry.take_used();
        assert!(!entry.may_end());
        drop(stay);
        assert!(!entry.may_end() && !idle() && idle());
        entry.mean();
        assert!(!entry.may_end());
    }
}
