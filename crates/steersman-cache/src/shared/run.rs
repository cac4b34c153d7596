//! Driver: the one run of a cache: its informers are started, watched over, and ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Connection, kube_client};
use steersman_object::Kind;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Shared;
use crate::error::Error;
use crate::idle_informers::Linger;
use crate::informer_entry::Declared;
use crate::registry::Phase;

/// How often the types are dropped that no read has used since the last time: a type is looked at
/// for so long after its last read, and twice that at most.
const SWEEP: Duration = Duration::from_secs(5 * 60);

/// The one run of a cache. Dropping it stops the cache for good.
pub(crate) struct Running {
    shared: Arc<Shared>,
}

impl Shared {
    /// Begins the one run; `None` where there was one.
    pub(crate) fn begin(shared: &Arc<Self>) -> Option<Running> {
        if !shared.registry.write().start() {
            return None;
        }
        shared.phase.send_replace(Phase::Running);
        let shared = Arc::clone(shared);
        Some(Running { shared })
    }

    /// Starts what is declared, and watches over what was started.
    async fn supervise(
        &self,
        client: &kube_client::Client,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let turns = Arc::new(Semaphore::new(self.options.concurrent_syncs));
        let mut kinds: HashMap<Id, Kind> = HashMap::new();
        let mut sweep = Instant::now() + SWEEP;
        let mut linger = Linger::new(self.options.linger, Instant::now().into_std());
        loop {
            for entry in self.registry.write().take_unstarted() {
                let task = tasks.spawn(entry.run(client.clone(), Arc::clone(&turns), cancel));
                kinds.insert(task.id(), entry.kind().clone());
            }
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.declared.notified() => {}
                () = sleep_until(sweep) => {
                    sweep += SWEEP;
                    let entries = self.registry.read().entries();
                    entries.iter().for_each(Declared::sweep);
                }
                () = at(linger.next_look()) => self.end_idle(&mut linger),
                Some(ended) = tasks.join_next_with_id() => accept(ended, &mut kinds)?,
            }
        }
        self.registry.write().stop();
        while let Some(ended) = tasks.join_next_with_id().await {
            accept(ended, &mut kinds)?;
        }
        Ok(())
    }

    /// CACHE-8: ends what nobody declared and nobody has used for long enough.
    fn end_idle(&self, linger: &mut Linger) {
        // Not under the lock that each read takes: a count of subscribers waits for whoever writes.
        let slots = self.registry.read().slots();
        let undeclared = slots.into_iter().filter(|(_, entry)| !entry.is_meant());
        let undeclared = undeclared.map(|(slot, entry)| (slot, entry.take_used()));
        for slot in linger.handle_look(undeclared, Instant::now().into_std()) {
            // Who came since then is noted under this lock, and keeps it.
            let Some(idle) = self.registry.write().remove_if(&slot, Declared::may_end) else {
                continue;
            };
            idle.end();
            if let Some(metrics) = &self.options.metrics {
                metrics.lingered(&idle.kind().to_string());
            }
            info!(
                kind = %idle.kind().qualified_plural(),
                namespace = slot.namespace.as_deref(),
                "nobody declared it, reads it or is subscribed to it any more: not cached until the next read"
            );
        }
    }
}

impl Running {
    /// Runs informers until `cancel` fires and all of them have stopped.
    pub(crate) async fn until(
        self,
        connection: Connection,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        if let Some(credentials) = connection.credentials() {
            // A cache runs once, so nobody has said it before.
            let _first = self.shared.credentials.set(credentials.to_owned());
        }
        let client = connection.client().map_err(Error::Connection)?;
        self.shared.supervise(&client, cancel).await
    }
}

/// CACHE-11: however a run ends, nobody waits for a cache that does not run any more.
impl Drop for Running {
    fn drop(&mut self) {
        let declared = {
            let mut registry = self.shared.registry.write();
            registry.stop();
            registry.entries()
        };
        // Those that run end by themselves; those that never had their turn would not. Not under the lock that each
        // read takes.
        for entry in declared {
            entry.mirror().end_unstarted();
        }
        self.shared.phase.send_replace(Phase::Stopped);
    }
}

/// Waits for a time; for ever, where there is none.
async fn at(time: Option<std::time::Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// An informer that ends is one that was cancelled or removed; one that panics ends the cache.
fn accept(ended: Result<(Id, ()), JoinError>, kinds: &mut HashMap<Id, Kind>) -> Result<(), Error> {
    let error = match ended {
        Ok((id, ())) => {
            kinds.remove(&id);
            return Ok(());
        }
        Err(error) => error,
    };
    match kinds.remove(&error.id()) {
        Some(kind) if error.is_panic() => Err(Error::Panicked {
            kind,
            message: error.to_string(),
        }),
        _ => Ok(()),
    }
}
