//! Driver: the state that all requests share: the registry behind its lock, subscriptions to changes, and the clock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::request::Parts;
use jiff::Timestamp;
use parking_lot::Mutex;
use steersman_apimachinery::status::Status;
use steersman_auth::Impersonations;
use steersman_registry::webhook::PendingCalls;
use steersman_registry::{Attempt, Registry, Snapshot};
use steersman_schema::resource::StorageKey;
use steersman_store::AfterWrites;

use tokio::sync::watch;

use crate::faults::{
    Faults, History, InterceptorSlot, RequestLog, RequestRecord, Restart, RestartEffect,
};
use crate::http::changes::StorageChanges;
use crate::http::documents::cache::DocumentCache;
use crate::http::documents::metrics::RequestCounts;
use crate::http::requests::auth::{self, AuthOutcome, Caller};
use crate::http::requests::query::Query;
use crate::http::requests::request_info;
use crate::http::webhooks::client::Webhooks;
use crate::revision_origins::{RevisionOrigin, RevisionOrigins};
use crate::wal::WriteAheadLog;

pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The options of [`ApiServerBuilder`](crate::ApiServerBuilder) for watches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) watch_list: bool,
    pub(crate) gzip_watches: bool,
    pub(crate) bookmark_every: Duration,
    pub(crate) watch_timeout: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            watch_list: true,
            gzip_watches: false,
            bookmark_every: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(45 * 60),
        }
    }
}

/// The state of one server, which its `ApiServer` handles, its services and its background tasks share.
#[derive(derive_more::Debug)]
#[debug("Context {{ tuning: {tuning:?}, .. }}")]
pub(crate) struct Context {
    registry: Mutex<Registry>,
    pub(crate) changes: StorageChanges,
    /// Grows by one whenever work under the registry's lock changes the store, to notify tasks that wait for a change.
    pub(crate) any_change: watch::Sender<u64>,
    /// Wakes the task that removes CRDs and namespaces that are marked as deleted, after a change has marked some.
    pub(crate) marks: watch::Sender<()>,
    /// The number of simulated restarts; connections end when it grows.
    pub(crate) restarts: watch::Sender<u64>,
    clock: Clock,
    pub(crate) tuning: Tuning,
    pub(crate) log: RequestLog,
    pub(crate) faults: Faults,
    pub(crate) interceptor: InterceptorSlot,
    pub(crate) counts: Mutex<RequestCounts>,
    pub(crate) documents: Mutex<DocumentCache>,
    pub(crate) webhooks: Webhooks,
    impersonations: Mutex<Impersonations>,
    /// The write-ahead log, which keeps the changes outside this process; `None` if changes are kept in memory alone.
    wal: Option<WriteAheadLog>,
    /// The time and the request of each retained revision; empty until the server's page is served.
    origins: OnceLock<Mutex<RevisionOrigins>>,
}

/// The result of a closure that ran under the registry's lock, and the work to do once the registry is unlocked.
struct AfterLock<R> {
    result: std::thread::Result<R>,
    has_changed: bool,
    has_marked: bool,
    /// The changed storages, to wake their watches; empty if the write-ahead log wakes them, once it has the changes.
    changed: Vec<StorageKey>,
    is_logged: bool,
    writes: AfterWrites,
}

impl Context {
    pub(crate) fn new(
        registry: Registry,
        clock: Clock,
        tuning: Tuning,
        (log, faults): (RequestLog, Faults),
    ) -> Self {
        Self {
            registry: Mutex::new(registry),
            changes: StorageChanges::default(),
            any_change: watch::Sender::new(0),
            marks: watch::Sender::new(()),
            restarts: watch::Sender::new(0),
            clock,
            tuning,
            log,
            faults,
            interceptor: InterceptorSlot::default(),
            counts: Mutex::default(),
            documents: Mutex::default(),
            webhooks: Webhooks::default(),
            impersonations: Mutex::default(),
            wal: None,
            origins: OnceLock::new(),
        }
    }

    /// Starts to record the time and the request of each revision. Further calls do nothing.
    pub(crate) fn record_origins(&self) {
        let registry = self.registry.lock();
        let revision = registry.revision();
        let recorded = || Mutex::new(RevisionOrigins::after(revision));
        self.origins.get_or_init(recorded);
    }

    /// Says that the verb that runs under the registry's lock is of this request.
    pub(crate) fn note_request(&self, sequence: u64) {
        if let Some(origins) = self.origins.get() {
            origins.lock().begin(sequence);
        }
    }

    /// Returns the time and the request of a revision; `None` if they were not recorded.
    pub(crate) fn origin(&self, revision: u64) -> Option<RevisionOrigin> {
        self.origins.get()?.lock().origin(revision)
    }

    /// Returns the retained revisions that a request made.
    pub(crate) fn revisions_of(&self, request: u64) -> Vec<u64> {
        let origins = self.origins.get();
        origins.map_or_else(Vec::new, |origins| origins.lock().revisions_of(request))
    }

    pub(crate) fn log_writes(&mut self, wal: WriteAheadLog) {
        let changes = self.changes.clone();
        let registry = self.registry.get_mut();
        registry.record_transactions();
        let wake = Box::new(move |changed: &[StorageKey]| changes.notify(changed));
        wal.begin(registry.revision(), wake);
        self.wal = Some(wal);
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Runs `work` with the registry locked, then wakes the watches of changed storages.
    ///
    /// SRV-1: `work` cannot wait, so a dropped request has done all of its work or none.
    ///
    /// SRV-4: if `work` panics, the watches of the storages that it changed are woken too, and later requests use the
    /// registry as before. That is safe because a verb makes all its checks before it stores. If the panic comes before
    /// the garbage collector has deleted the dependents of a deleted object, the next verb that runs the collector
    /// deletes them.
    pub(crate) fn with_registry<R>(&self, work: impl FnOnce(&mut Registry) -> R) -> R {
        let mut registry = self.registry.lock();
        let done = AfterLock::of(&mut registry, self, work);
        drop(registry);
        self.finish(done)
    }

    fn finish<R>(&self, done: AfterLock<R>) -> R {
        if done.has_changed {
            self.any_change.send_modify(|version| *version += 1);
        }
        if done.has_marked {
            self.marks.send_replace(());
        }
        if !done.changed.is_empty() {
            self.changes.notify(&done.changed);
        }
        done.writes.finish();
        // `finish` comes before `announce`: it serialises the written objects, so that the log's task need not do so.
        if let Some(wal) = self.wal.as_ref().filter(|_| done.is_logged) {
            wal.announce();
        }
        done.result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs a verb. If the verb needs answers of webhooks, calls the webhooks and runs it again with the answers: each
    /// run either completes, or changes nothing and returns the calls to make (ADM-2). Returns the result of the last
    /// run and its warnings for the client.
    ///
    /// Dropping the future abandons the verb, which then has changed nothing.
    pub(crate) async fn asking<R>(
        &self,
        mut verb: impl FnMut(&mut Registry) -> R,
    ) -> (R, Vec<String>) {
        let mut attempt = Attempt::default();
        loop {
            let run = self.with_registry(|registry| registry.attempt(&mut attempt, &mut verb));
            match run {
                Ok(result) => return (result, attempt.warnings()),
                Err(question) => self.put(question, &mut attempt).await,
            }
        }
    }

    /// Waits until the write-ahead log, if there is one, has every change so far.
    pub(crate) async fn caught_up(&self) {
        if let Some(wal) = &self.wal {
            wal.caught_up().await;
        }
    }

    pub(crate) fn check_writable(&self) -> Result<(), Status> {
        self.log_failure()
            .map_or(Ok(()), |why| Err(unwritable(&why)))
    }

    /// Waits until every revision that the answer to a request may show is in the write-ahead log (WAL-1).
    ///
    /// # Errors
    /// If the log cannot be written: 503 for a read; 500 for a write, which stays in memory and may be logged later
    /// (WAL-4).
    pub(crate) async fn kept(&self, is_read: bool) -> Result<(), Status> {
        let Some(wal) = &self.wal else {
            return Ok(());
        };
        wal.settled().await.map_err(|why| {
            if is_read {
                return unwritable(&why);
            }
            Status::internal(format!(
                "the write is not in the write-ahead log, so it is lost if the server ends now: {why}"
            ))
        })
    }

    pub(crate) fn log_failure(&self) -> Option<Arc<str>> {
        self.wal.as_ref().and_then(WriteAheadLog::failure)
    }

    /// Takes a snapshot of the whole state. The next transaction starts a new file of the write-ahead log.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.with_registry(|registry| {
            if let Some(wal) = &self.wal {
                wal.cut();
            }
            registry.snapshot()
        })
    }

    /// Calls the webhooks that a verb needs, without the registry's lock, and adds their answers to `attempt`. Waits
    /// for the write-ahead log first, because a webhook sees no revision that is not in the log (WAL-1).
    pub(crate) async fn put(&self, question: PendingCalls, attempt: &mut Attempt) {
        self.caught_up().await;
        let resolve = |namespace: &str, name: &str, port: u16| {
            self.with_registry(|registry| registry.service_address(namespace, name, port))
        };
        for (key, answer) in self.webhooks.ask(question.calls, &resolve).await {
            attempt.learn(key, answer);
        }
    }

    pub(crate) fn check_auth(&self, parts: &Parts, query: &Query, caller: &Caller) -> AuthOutcome {
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let asked = || request_info::attributes(method, path, query);
        let now = self.now();
        let registry = self.registry.lock();
        let mut impersonations = self.impersonations.lock();
        let outcome = auth::check(&registry, &mut impersonations, parts, caller, &asked, now);
        drop(impersonations);
        let has_used_secrets = registry.has_used_secrets();
        drop(registry);
        if has_used_secrets {
            self.with_registry(|registry| registry.mark_used_secrets(now));
        }
        outcome
    }

    /// Simulates a restart as clients see it: open watches break, idle connections are closed, and if the history is
    /// lost no watch can resume from an earlier revision. Returns the number of broken watches. For a restart that
    /// takes time, [`meet_outage`](Self::meet_outage) returns its effect on requests.
    pub(crate) fn restart(&self, restart: Restart) -> usize {
        if restart.history == History::Lost {
            self.with_registry(Registry::compact);
        }
        self.faults.begin_outage(restart);
        let broken = self.faults.break_watches();
        self.restarts.send_modify(|number| *number += 1);
        broken
    }

    pub(crate) fn meet_outage(&self, record: &RequestRecord) -> Option<RestartEffect> {
        if let Some((phase, _)) = self.faults.outage() {
            return phase.meet(record);
        }
        if self.faults.end_outage() {
            // The restart that has just ended lost the history: after the compaction no watch resumes from an earlier
            // revision.
            self.with_registry(Registry::compact);
        }
        None
    }
}

/// Returns the 503 for a write that is not carried out, or a read that is not answered, because the write-ahead log
/// cannot be written.
fn unwritable(why: &str) -> Status {
    let message = format!("the write-ahead log cannot be written: {why}");
    Status::failure(503, "ServiceUnavailable", message).with_retry_after(1)
}

#[cfg(feature = "simulator")]
impl steersman_simulator::PlayedServer for Context {
    fn now(&self) -> Timestamp {
        self.now()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.any_change.subscribe()
    }

    async fn caught_up(&self) {
        self.caught_up().await;
    }

    fn locked<R>(&self, work: impl FnOnce(&mut Registry) -> R) -> R {
        let mut registry = self.registry.lock();
        let done = AfterLock::of(&mut registry, self, work);
        // `unlock_fair` hands the lock to a waiting request before the simulator locks the registry again (PLAY-7).
        parking_lot::MutexGuard::unlock_fair(registry);
        self.finish(done)
    }
}

impl<R> AfterLock<R> {
    fn of(
        registry: &mut Registry,
        context: &Context,
        work: impl FnOnce(&mut Registry) -> R,
    ) -> Self {
        let wal = context.wal.as_ref();
        if let Some(wal) = wal {
            registry.show_until(wal.kept_revision());
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(registry)));
        // Drops the warnings that a verb left in the registry when it panicked: its client gets a 500 without them.
        registry.take_warnings();
        let mut changed = registry.take_changed();
        let has_changed = !changed.is_empty();
        if let Some(origins) = context.origins.get() {
            let (revision, oldest) = (registry.revision(), registry.store().compacted());
            origins.lock().end(revision, oldest, || context.now());
        }
        let transaction = registry.take_transaction();
        let is_logged = transaction.is_some();
        if let (Some(wal), Some(transaction)) = (wal, transaction) {
            wal.add(transaction, std::mem::take(&mut changed));
        }
        Self {
            result,
            has_changed,
            has_marked: registry.has_marked(),
            changed,
            is_logged,
            writes: registry.take_after_writes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use steersman_registry::{ObjectTarget, RegistryOptions, WriteOptions};

    /// SRV-4: writes before a panic wake their watches, and the next request can lock the registry.
    #[test]
    fn a_panic_with_the_registry_still_wakes_the_watches() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let registry = Registry::new(RegistryOptions::default(), now);
        let parts = (RequestLog::new(1), Faults::new(0));
        let context = Context::new(registry, Arc::new(move || now), Tuning::default(), parts);
        context.with_registry(|_| ());
        let changes = context.any_change.subscribe();
        let before = context.with_registry(|registry| registry.revision());
        let broken = catch_unwind(AssertUnwindSafe(|| {
            context.with_registry(|registry| {
                let namespaces = registry.resource("", "v1", "namespaces").unwrap();
                let made = registry.create(
                    ObjectTarget::collection(&namespaces, None),
                    json!({"metadata": {"name": "made"}}),
                    &WriteOptions::default(),
                    now,
                );
                assert!(made.is_err(), "a mistake after the write");
            });
        }));
        assert!(broken.is_err());
        assert!(changes.has_changed().unwrap());
        assert!(context.with_registry(|registry| registry.revision()) > before);
    }
}
