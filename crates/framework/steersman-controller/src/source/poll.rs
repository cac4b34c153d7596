//! Handle: a poll of the state of something outside the cluster, for each object of a kind.

mod schedule;
mod driver;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use steersman_object::{Object, ObjectKey, TypedObject};

use crate::error::Error;

/// The shortest interval of a poll. Shorter intervals are raised to it.
const SHORTEST: Duration = Duration::from_secs(1);
/// The largest number of calls in progress, over all objects, if the poll does not set one.
const CONCURRENT: usize = 8;
/// How long a call for one object may take, if the poll does not say so.
const LIMIT: Duration = Duration::from_secs(30);

/// A poll of the state of something outside the cluster, for each object of the primary kind; see [`poll`].
#[derive(derive_more::Debug)]
#[debug("Poll {{ every: {every:?}, max_concurrent: {max_concurrent}, limit: {limit:?}, .. }}")]
#[must_use = "pass it to `Watch::poll`"]
pub struct Poll<K, T> {
    every: Duration,
    max_concurrent: usize,
    limit: Duration,
    function: PollFunction<K, T>,
    results: PollResults<T>,
}

/// The user's function, which returns the present state of one object.
type PollFunction<K, T> = Arc<dyn Fn(Arc<K>) -> BoxFuture<'static, Result<T, Error>> + Send + Sync>;

/// The last state of each object of a [`Poll`]. Cheap to clone; all clones show the same states.
#[derive(derive_more::Debug)]
#[debug("PollResults {{ objects: {}, .. }}", states.lock().len())]
pub struct PollResults<T> {
    states: Arc<Mutex<HashMap<ObjectKey, Arc<T>>>>,
}

/// Makes a poll: `function` is called for each object of a kind at the interval `every`, and the object is requested
/// when the returned state differs from the previous state.
///
/// A poll is for something that reports no events: a database, a cloud provider, a DNS zone.
///
/// - The first call for an object is made when it appears, and its state requests the object. The next call is made
///   `every` after the end of the last call, shortened or lengthened by up to a tenth. `every` is at least a second.
/// - If the generation of an object changes, its next call is made at once, because the state may depend on the spec.
/// - At most 8 calls are in progress ([`max_concurrent`](Poll::max_concurrent)), and one per object. A call
///   may take 30 s ([`limit`](Poll::limit)).
/// - [`results`](Poll::results) returns the last state of each object, for the reconciler. The state is dropped when
///   the object is deleted or its namespace is removed from the cache.
/// - An error, a panic and a call beyond the limit keep the last state and request nothing. They are counted in
///   `steersman_controller_polls_total`, and the time until the next call doubles with each consecutive failure for the
///   object, up to eight intervals. A failure is logged if it is the first of its object, or if their number has
///   doubled since the last log line.
///
/// The workers do not wait for the first states. The calls share one task, so a function must not block.
///
/// # Cancel safety
///
/// When the controller stops, and when a call exceeds its limit, the future of the function is dropped at an await.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_controller::{Action, Context, Controller, Error, Request, Watch, reconcile, source};
///
/// /// Asks a service how many rows a table has.
/// async fn rows(table: Arc<ConfigMap>) -> Result<u64, Error> {
/// #   let _ = table;
///     Ok(7)
/// }
///
/// let poll = source::poll(Duration::from_secs(60), rows);
/// let results = poll.results();
/// let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
///     let rows = results.get(&request.key); // `None` before the first answer.
///     async move {
///         println!("{} has {rows:?} rows", request.key);
///         Ok::<_, Error>(Action::done())
///     }
/// });
/// let controller = Controller::builder::<ConfigMap>().watch(Watch::poll(poll)).build(reconciler)?;
/// # Ok::<_, steersman_controller::ControllerError>(())
/// ```
pub fn poll<K, T, F, Fut>(every: Duration, function: F) -> Poll<K, T>
where
    K: TypedObject,
    T: PartialEq + Send + Sync + 'static,
    F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Error>> + Send + 'static,
{
    Poll {
        every: every.max(SHORTEST),
        max_concurrent: CONCURRENT,
        limit: LIMIT,
        function: Arc::new(move |object| function(object).boxed()),
        results: PollResults::default(),
    }
}

impl<K: Object, T> Poll<K, T> {
    /// Sets the number of calls that may be in progress. The default is 8, the least is 1.
    pub fn max_concurrent(mut self, calls: usize) -> Self {
        self.max_concurrent = calls;
        self
    }

    /// Sets how long a call may take before it counts as failed. The default is 30 s; zero removes the limit.
    pub fn limit(mut self, limit: Duration) -> Self {
        let limit = Some(limit).filter(|limit| !limit.is_zero());
        self.limit = limit.unwrap_or(Duration::MAX);
        self
    }

    /// Returns a handle that reads the last state of each object, for the reconciler.
    pub fn results(&self) -> PollResults<T> {
        self.results.clone()
    }
}

// === impl PollResults ===

impl<T> PollResults<T> {
    /// Returns the last state of an object; `None` before its first successful call, and after its deletion.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.states.lock().get(key).cloned()
    }

    /// Sets the state of an object, as if the function had returned it; the object is not requested. Returns false,
    /// and keeps nothing, if the object has no state (SRC-7).
    ///
    /// A reconciler that has changed the polled state calls this method with the new state. Otherwise the next call
    /// would request the object once more, and a change back to the former state would not be noticed. The result of a
    /// call that began before `set` is dropped.
    pub fn set(&self, key: &ObjectKey, state: T) -> bool {
        let mut states = self.states.lock();
        let replaced = states
            .get_mut(key)
            .map(|current| std::mem::replace(current, Arc::new(state)));
        drop(states);
        // The replaced state is dropped outside the lock of `states`, because dropping a type of the user may run any
        // code.
        replaced.is_some()
    }

    /// Returns the number of objects with a state.
    pub fn len(&self) -> usize {
        self.states.lock().len()
    }

    /// Returns whether no object has a state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the state of an object that was deleted or left the cache (SRC-2).
    fn forget(&self, key: &ObjectKey) {
        // The state is dropped outside the lock of `states`, because dropping a type of the user may run any code.
        let forgotten = self.states.lock().remove(key);
        drop(forgotten);
    }
}

impl<T: PartialEq> PollResults<T> {
    /// Stores the state that a call returned. Returns whether it differs from `before`, the state when the call began.
    fn put(&self, key: &ObjectKey, before: Option<&Arc<T>>, state: T) -> bool {
        if let Some(current) = self.get(key) {
            // SRC-7: the reconciler has set a state after the call began, so the returned state may be outdated.
            let is_set_since = before.is_some_and(|before| !Arc::ptr_eq(before, &current));
            // The states are compared outside the lock of `states`, because the comparison is code of the user.
            if is_set_since || *current == state {
                return false;
            }
        }
        let replaced = self.states.lock().insert(key.clone(), Arc::new(state));
        drop(replaced);
        true
    }
}

impl<T> Clone for PollResults<T> {
    fn clone(&self) -> Self {
        Self {
            states: Arc::clone(&self.states),
        }
    }
}

impl<T> Default for PollResults<T> {
    fn default() -> Self {
        Self {
            states: Arc::default(),
        }
    }
}
