//! Handle: `WriteAheadLog`: the server adds its writes, and a task of the program that runs the server stores them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use steersman_registry::Transaction;
use steersman_schema::resource::StorageKey;
use tokio::sync::Notify;

use super::queue::{WalGroup, WalQueue};

/// Appends a group of transactions to the log on the calling thread, without the task that calls
/// [`WriteAheadLog::next`]. The error says why the append failed.
type AppendNow = Box<dyn FnMut(&WalGroup) -> Result<(), String> + Send>;

type WakeWatches = Box<dyn Fn(&[StorageKey]) + Send + Sync>;

/// The write-ahead log of a server ([`ApiServerBuilder::log_writes`]): every change of the state as a
/// transaction, for a task that keeps the transactions outside this process. Cheap to clone.
///
/// The server answers a request, and shows watches a change, once [`keep`](Self::keep) was called for
/// the group with the change. The task calls [`next`](Self::next), appends the group, and calls `keep`;
/// or [`fail`](Self::fail), after which the server refuses writes until a later `keep`.
///
/// [`ApiServerBuilder::log_writes`]: crate::ApiServerBuilder::log_writes
#[derive(Clone, Default, derive_more::Debug)]
#[debug("WriteAheadLog {{ .. }}")]
pub struct WriteAheadLog {
    shared: Arc<WalState>,
}

#[derive(Default)]
struct WalState {
    queue: Mutex<WalQueue>,
    /// The newest revision that clients may see: all transactions up to this revision are in the log.
    kept_revision: AtomicU64,
    /// Notified when transactions wait to be appended, so that the task in [`WriteAheadLog::next`] takes them.
    arrived: Notify,
    /// Notified when a group was appended or its append failed, so that requests check whether their own transactions
    /// are in the log.
    settled: Notify,
    wake: OnceLock<WakeWatches>,
    /// The function with which the threads of requests append transactions; unset if the task that calls
    /// [`WriteAheadLog::next`] appends them.
    now: OnceLock<Mutex<AppendNow>>,
}

impl WriteAheadLog {
    /// Creates an empty log, for [`log_writes`](crate::ApiServerBuilder::log_writes) of one server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the thread of each request append the waiting transactions with `append`, instead of the task that calls
    /// [`next`](Self::next). This is faster if an append takes less time than waking the task. The task then gets only
    /// groups that could not be appended.
    pub fn append_at_once(
        &self,
        append: impl FnMut(&WalGroup) -> Result<(), String> + Send + 'static,
    ) {
        // A second call has no effect, because all transactions of a log are appended by one function.
        let _ = self.shared.now.set(Mutex::new(Box::new(append)));
        self.announce();
    }

    /// Waits for transactions that are not in the log, and takes at most 1,024 of them as a group. Before, the caller
    /// must have called [`keep`](Self::keep) for the previous group.
    ///
    /// # Cancel safety
    /// Safe: a dropped future has taken nothing.
    pub async fn next(&self) -> WalGroup {
        loop {
            let is_due =
                |queue: &WalQueue| self.shared.now.get().is_none() || queue.failure.is_some();
            if let Some(group) = self.take_if(is_due) {
                return group;
            }
            // `Notify` stores a notification that comes after the check above, so the task misses no transaction.
            self.shared.arrived.notified().await;
        }
    }

    fn take_if(&self, is_due: impl FnOnce(&WalQueue) -> bool) -> Option<WalGroup> {
        let mut queue = self.shared.queue.lock();
        is_due(&queue).then(|| queue.take()).flatten()
    }

    /// Records that a group, and so every group before it, is in the log: requests that wait for the group are
    /// answered, and watches see its changes.
    pub fn keep(&self, group: WalGroup) {
        self.settle(group);
        // While the log could not be written, later transactions were added and not appended. Appends them now, or
        // notifies the task that appends, instead of waiting for the next write.
        self.announce();
    }

    fn settle(&self, group: WalGroup) {
        let revision = group.revision();
        let changed = self.shared.queue.lock().keep(group);
        self.shared
            .kept_revision
            .fetch_max(revision, Ordering::AcqRel);
        self.shared.settled.notify_waiters();
        if let Some(wake) = self.shared.wake.get() {
            wake(&changed);
        }
    }

    /// Records why the log cannot be written. Requests that wait for the log are refused, and so are writes until the
    /// next [`keep`](Self::keep). The changes of the group that could not be appended remain in the server's memory,
    /// where no client sees them, so this group must be appended before any later one (WAL-4).
    pub fn fail(&self, why: impl Into<Arc<str>>) {
        self.shared.queue.lock().failure = Some(why.into());
        self.shared.settled.notify_waiters();
    }

    /// Returns why the log cannot be written at the moment; `None` if the last append succeeded.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.queue.lock().failure.clone()
    }

    /// Waits until all transactions that were added before this call are in the log.
    ///
    /// # Errors
    /// The reason why the log cannot be written.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn settled(&self) -> Result<(), Arc<str>> {
        let upto = self.shared.queue.lock().added;
        self.wait(upto, |failure| failure.map(Arc::clone)).await
    }

    /// Waits until the log has all transactions that were added so far, also while it cannot be written.
    pub(crate) async fn caught_up(&self) {
        let upto = self.shared.queue.lock().added;
        // The wait ends only when the transactions are in the log, so it has no error.
        let _: Result<(), ()> = self.wait(upto, |_| None).await;
    }

    /// Waits until the transaction with number `upto` is in the log, or until `ends` returns an error. `ends` is called
    /// with the reason why the log cannot be written, if there is one.
    async fn wait<E>(
        &self,
        upto: u64,
        ends: impl Fn(Option<&Arc<str>>) -> Option<E>,
    ) -> Result<(), E> {
        loop {
            let mut settled = std::pin::pin!(self.shared.settled.notified());
            // Registered before the queue is checked, so that no notification is missed.
            settled.as_mut().enable();
            {
                let queue = self.shared.queue.lock();
                if queue.kept >= upto {
                    return Ok(());
                }
                if let Some(error) = ends(queue.failure.as_ref()) {
                    return Err(error);
                }
            }
            settled.await;
        }
    }

    /// Adds a transaction, which has all changes made under one lock of the registry. The caller still holds this lock,
    /// so that transactions are in the order of their revisions.
    pub(crate) fn add(&self, transaction: Transaction, changed: Vec<StorageKey>) {
        self.shared.queue.lock().add(transaction, changed);
    }

    /// Appends the waiting transactions, or notifies the task that does. Call this method after unlocking the registry.
    pub(crate) fn announce(&self) {
        let Some(now) = self.shared.now.get() else {
            self.shared.arrived.notify_one();
            return;
        };
        // If another thread has locked `now`, this thread is done: the other thread checks the queue again after
        // unlocking, and so appends the transactions of both.
        while let Some(mut append) = now.try_lock() {
            loop {
                let Some(group) = self.take_if(|queue| queue.failure.is_none()) else {
                    break;
                };
                match append(&group) {
                    Ok(()) => self.settle(group),
                    Err(why) => {
                        let mut queue = self.shared.queue.lock();
                        queue.put_back(group);
                        queue.failure = Some(why.into());
                        drop(queue);
                        self.shared.settled.notify_waiters();
                        self.shared.arrived.notify_one();
                        return;
                    }
                }
            }
            drop(append);
            let queue = self.shared.queue.lock();
            if queue.is_empty() || queue.failure.is_some() {
                return;
            }
        }
    }

    /// Makes the next transaction start a new file of the log, because the snapshot that is being taken includes all
    /// earlier ones. The caller holds the registry's lock, so that no transaction comes in between.
    pub(crate) fn cut(&self) {
        self.shared.queue.lock().cuts = true;
    }

    /// Sets the revision of the state with which the server starts, and the function that wakes watches once the
    /// changes that they wait for are in the log.
    pub(crate) fn begin(&self, revision: u64, wake: WakeWatches) {
        self.shared.kept_revision.store(revision, Ordering::Release);
        // A log belongs to one server, so the function is set once.
        let _ = self.shared.wake.set(wake);
    }

    /// Returns the newest revision that clients may see.
    pub(crate) fn kept_revision(&self) -> u64 {
        self.shared.kept_revision.load(Ordering::Acquire)
    }
}
