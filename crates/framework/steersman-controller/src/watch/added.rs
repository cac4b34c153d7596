//! Handle: watches that are added to controllers and removed while the controllers run.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, FutureExt};
use steersman_cache::Cache;
use steersman_object::{Kind, Object};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::handler::target::ControllerTarget;
use crate::request::RequestKey;
use crate::watch::declared::{Watch, WatchedKind};
use crate::watch::optional::follow_kind;
use crate::watch::{AnySource, PumpEnd, Sink};

/// Watches that are added and removed while controllers run: for kinds that objects of the primary kind name,
/// for example. Cheap to clone; all clones are one set.
///
/// A controller follows a set with [`Watch::set`]: it begins each watch of the set, also of those added later, and ends
/// each watch that is removed. Several controllers of one kind may follow one set.
///
/// A watch of the set is always [optional](Watch::optional): it waits, without a reported failure, for a kind that the
/// server does not serve, and the workers do not wait for it. Its informer is shared with all other readers of the
/// kind. After the removal of its last watch, an informer that nothing else uses ends when it was idle for its linger
/// time.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_controller::handler::owner;
/// use steersman_controller::{Controller, Watch, WatchSet};
///
/// let watches = WatchSet::new();
/// let controller = Controller::builder::<Deployment>().watch(Watch::set(&watches));
///
/// // At any time, before the controller starts or while it runs:
/// let added = watches.add(Watch::of::<ConfigMap>(owner()));
/// assert_eq!(watches.kinds().len(), 1);
/// drop(added); // Ends the watch.
/// assert!(watches.kinds().is_empty());
/// ```
#[derive(derive_more::Debug)]
#[debug("{:?}", self.kinds())]
pub struct WatchSet<P: ControllerTarget> {
    shared: Arc<WatchSetShared<P::Key>>,
}

/// A watch of a [`WatchSet`]. Dropping it removes the watch.
#[derive(derive_more::Debug)]
#[debug("AddedWatch {{ kind: {kind:?}, .. }}")]
#[must_use = "dropping it removes the watch"]
pub struct AddedWatch {
    kind: Kind,
    /// Removes the watch from its set; `None` after [`AddedWatch::keep`].
    remove: Option<Box<dyn FnOnce() + Send + Sync>>,
}

struct WatchSetShared<R: RequestKey> {
    members: Sender<WatchMembers<R>>,
    /// The id of the newest watch. Ids grow in the order of the adds, so a higher id marks a watch added later.
    last_id: AtomicU64,
}

type WatchMembers<R> = Arc<BTreeMap<u64, WatchMember<R>>>;

#[derive(Clone)]
struct WatchMember<R: RequestKey> {
    kind: Kind,
    follow: Follow<R>,
    removed: CancellationToken,
}

/// Calls [`follow_kind`] for one watch in one controller. The Rust type of the watched objects is erased, so that a
/// [`WatchSet`] can hold watches of several types.
type Follow<R> =
    Arc<dyn Fn(Cache, Sink<R>, CancellationToken) -> BoxFuture<'static, PumpEnd> + Send + Sync>;

// === impl WatchSet ===

impl<P: ControllerTarget> WatchSet<P> {
    /// Makes an empty set of watches.
    #[must_use]
    pub fn new() -> Self {
        let shared = WatchSetShared {
            members: Sender::new(WatchMembers::default()),
            last_id: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Adds a watch of a kind until the returned value is dropped. Objects that exist already arrive as create events
    /// of low priority.
    ///
    /// Nothing is declared: the roles of `cargo steersman generate` do not name the kind, even if the watch is
    /// [`Watch::owned`], and the index of [`handler::indexed`](crate::handler::indexed()) is not checked.
    pub fn add<W: Object>(&self, watch: Watch<WatchedKind<W, P>>) -> AddedWatch {
        let route = Arc::new(watch.source.route);
        let kind = route.kind().clone();
        let member = WatchMember {
            kind: kind.clone(),
            follow: Arc::new(move |cache, sink, removed| {
                follow_kind(Arc::clone(&route), cache, sink, removed).boxed()
            }),
            removed: CancellationToken::new(),
        };
        let mut id = 0;
        self.shared.members.send_modify(|members| {
            // The id is taken under the lock of `members`, so that watches join in the order of their ids.
            id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
            Arc::make_mut(members).insert(id, member);
        });
        let set = self.clone();
        AddedWatch {
            kind,
            remove: Some(Box::new(move || set.remove(id))),
        }
    }

    /// Returns the kind of each watch, in the order of the adds.
    pub fn kinds(&self) -> Vec<Kind> {
        let members = self.shared.members.borrow();
        members.values().map(|member| member.kind.clone()).collect()
    }

    fn remove(&self, id: u64) {
        let mut removed = None;
        self.shared.members.send_if_modified(|members| {
            removed = Arc::make_mut(members).remove(&id);
            removed.is_some()
        });
        // SRC-5: the token ends the watch in every controller. It is cancelled after the closure above has released the
        // lock of `members`, because the tasks that the token wakes may need that lock.
        if let Some(member) = removed {
            member.removed.cancel();
        }
    }
}

// === impl AddedWatch ===

impl AddedWatch {
    /// Returns the kind of the watched objects.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Removes the watch, as dropping the value does. The handler of the watch is not called again, even for events
    /// that wait (SRC-5); a call in progress may still cause requests.
    pub fn remove(self) {}

    /// Keeps the watch in its set for good: no later drop removes it.
    pub fn keep(mut self) {
        self.remove = None;
    }
}

impl Drop for AddedWatch {
    fn drop(&mut self) {
        if let Some(remove) = self.remove.take() {
            remove();
        }
    }
}

// === impl AnySource ===

impl<P: ControllerTarget> AnySource<P::Key> for WatchSet<P> {
    /// Runs the watches that are in the set, each until it is removed. Never ends by itself.
    fn run(self: Box<Self>, cache: Cache, sink: Sink<P::Key>) -> BoxFuture<'static, PumpEnd> {
        Box::pin(async move {
            let mut members = self.shared.members.subscribe();
            let mut last_id = 0;
            let mut watches = JoinSet::new();
            loop {
                for (id, member) in later_than(last_id, &mut members) {
                    last_id = id;
                    let removed = member.removed.clone();
                    let task = (member.follow)(cache.clone(), sink.clone(), removed);
                    watches.spawn(member.removed.run_until_cancelled_owned(task));
                }
                tokio::select! {
                    biased;
                    changed = members.changed() => if changed.is_err() {
                        return PumpEnd::Finished;
                    },
                    // CTRL-6: panics of the user's closures are caught where they are called. Any other panic of a
                    // watch ends the controller.
                    Some(end) = watches.join_next(), if !watches.is_empty() => {
                        if let Some(Ok(panic)) = end.err().map(JoinError::try_into_panic) {
                            resume_unwind(panic);
                        }
                    }
                }
            }
        })
    }
}

/// Returns the watches with an id greater than `last_id`, in the order of their adds.
fn later_than<R: RequestKey>(
    last_id: u64,
    members: &mut Receiver<WatchMembers<R>>,
) -> Vec<(u64, WatchMember<R>)> {
    let members = members.borrow_and_update();
    let later = members.range(last_id + 1..);
    later.map(|(id, member)| (*id, member.clone())).collect()
}

impl<P: ControllerTarget> Clone for WatchSet<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P: ControllerTarget> Default for WatchSet<P> {
    fn default() -> Self {
        Self::new()
    }
}
