//! Driver: runs a cache: starts its informers, ends idle ones, and stops all of them at the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::clock::{at, now};
use steersman_api::{ClientConfig, kube_client};
use steersman_object::Kind;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::SharedCache;
use crate::error::Error;
use crate::idle_informers::IdleInformers;
use crate::informer_entry::InformerEntry;
use crate::informer_map::CachePhase;

/// The interval at which typed handles (views) without a read since the previous sweep are dropped. An unused view
/// exists for one to two intervals.
const SWEEP: Duration = Duration::from_secs(5 * 60);

/// A cache that is marked as running; see [`Cache::begin`](crate::Cache::begin).
#[derive(derive_more::Debug)]
#[debug("StartedCache {{ .. }}")]
#[must_use = "dropping it stops the cache for good"]
pub struct StartedCache {
    shared: Arc<SharedCache>,
}

impl SharedCache {
    /// Starts declared informers and supervises them until `cancel` fires.
    async fn supervise(
        &self,
        client: &kube_client::Client,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let turns = Arc::new(Semaphore::new(self.options.concurrent_syncs));
        let mut kinds: HashMap<Id, Kind> = HashMap::new();
        let mut sweep = Instant::now() + SWEEP;
        let mut linger = IdleInformers::new(self.options.linger, now());
        loop {
            for entry in self.registry.write().take_unstarted() {
                let managers = self.field_managers.clone();
                let task = entry.run(client.clone(), managers, Arc::clone(&turns), cancel);
                let task = tasks.spawn(task);
                kinds.insert(task.id(), entry.kind().clone());
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = self.declared.notified() => {}
                () = sleep_until(sweep) => {
                    sweep += SWEEP;
                    let entries = self.registry.read().entries();
                    entries.iter().for_each(InformerEntry::sweep);
                }
                () = at(linger.next_check()) => self.end_idle(&mut linger),
                Some(ended) = tasks.join_next_with_id() => accept(ended, &mut kinds)?,
            }
        }
        self.registry.write().stop();
        while let Some(ended) = tasks.join_next_with_id().await {
            accept(ended, &mut kinds)?;
        }
        Ok(())
    }

    /// CACHE-8: ends informers that only reads started (undeclared) and that were idle for the linger time.
    fn end_idle(&self, linger: &mut IdleInformers) {
        // Subscribers are counted outside the registry's lock: every read takes the lock, and the count may wait.
        let entries = self.registry.read().keyed_entries().into_iter();
        let undeclared = entries.filter(|(_, entry)| !entry.is_permanent());
        let undeclared = undeclared.map(|(key, entry)| (key, entry.take_used()));
        for key in linger.handle_check(undeclared, now()) {
            // A use after the check is recorded under this lock, and keeps the informer.
            let removed = self
                .registry
                .write()
                .remove_if(&key, InformerEntry::may_end);
            let Some(idle) = removed else { continue };
            idle.end();
            if let Some(metrics) = &self.options.metrics {
                metrics.lingered(&idle.kind().to_string());
            }
            info!(
                kind = %idle.kind().qualified_plural(),
                namespace = key.namespace.as_deref(),
                "an undeclared informer ended because it was idle: the next read starts it again"
            );
        }
    }
}

impl StartedCache {
    /// Begins the only run of a cache; returns `None` if the cache ran before.
    pub(crate) fn begin(shared: &Arc<SharedCache>) -> Option<Self> {
        if !shared.registry.write().start() {
            return None;
        }
        shared.phase.send_replace(CachePhase::Running);
        let shared = Arc::clone(shared);
        Some(Self { shared })
    }

    /// Runs the cache; see [`Cache::run`](crate::Cache::run).
    ///
    /// # Errors
    ///
    /// The errors of [`Cache::run`](crate::Cache::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the cache for good.
    pub async fn run(
        self,
        client_config: ClientConfig,
        cancel: CancellationToken,
    ) -> Result<(), Error> {
        // CLIENT-12: informers keep digests of this program's applies, so that equal applies are recognized.
        self.shared.field_managers.note(&client_config.program());
        if let Some(credentials) = client_config.credentials() {
            // A cache runs once, so the value was not set before.
            let _first = self.shared.credentials.set(credentials.to_owned());
        }
        let client = client_config.client().map_err(Error::Connection)?;
        self.shared.supervise(&client, &cancel).await
    }
}

/// CACHE-11: every end of a run, also by a drop or a panic, releases the tasks that wait for informers that never
/// started.
impl Drop for StartedCache {
    fn drop(&mut self) {
        let declared = {
            let mut registry = self.shared.registry.write();
            registry.stop();
            registry.entries()
        };
        // Running informers end by themselves. Those that never started are ended here, outside the lock that every
        // read takes.
        for entry in declared {
            entry.untyped().end_unstarted();
        }
        self.shared.phase.send_replace(CachePhase::Stopped);
    }
}

/// Handles the end of an informer's task: a cancellation or removal is expected, and a panic ends the cache.
fn accept(ended: Result<(Id, ()), JoinError>, kinds: &mut HashMap<Id, Kind>) -> Result<(), Error> {
    let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
    match (kinds.remove(&id), ended) {
        (Some(kind), Err(error)) if error.is_panic() => Err(Error::Panicked {
            kind,
            message: error.to_string(),
        }),
        _ => Ok(()),
    }
}
