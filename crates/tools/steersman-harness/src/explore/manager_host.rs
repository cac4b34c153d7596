//! Driver: runs the managers of an operator as the processes of a world.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use steersman_api::ClientConfig;
use steersman_cache::CacheOptions;
use steersman_controller::{RecentReconcile, ReconcileResult};
use steersman_lease::LeaderElection;
use steersman_manager::Manager;
use steersman_object::{panic_text, report};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::User;
use steersman_testenv::apiserver::explore::{
    ExploreError, OperatorHost, ProcessEnd, ReconcileOutcomes,
};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::process_connection::ProcessConnection;
use crate::error::BoxError;
use crate::external::WorldOperator;

/// The processes of one world: each is a manager of its own.
pub(super) struct ManagerHost {
    server: ApiServer,
    operator: WorldOperator,
    cache: CacheOptions,
    /// Whether the processes take part in a leader election.
    elects: bool,
    /// The seed of the world.
    seed: u64,
    running: Mutex<BTreeMap<usize, RunningProcess>>,
    /// The texts of panics in processes that were killed.
    panics: Mutex<Vec<String>>,
    ends: (
        mpsc::UnboundedSender<ProcessEnd>,
        AsyncMutex<mpsc::UnboundedReceiver<ProcessEnd>>,
    ),
}

struct RunningProcess {
    task: JoinHandle<()>,
    manager: Arc<Manager>,
    connection: Arc<ProcessConnection>,
}

/// The Lease of the leader election.
const LEASE: &str = "explored";

impl ManagerHost {
    pub(super) fn new(
        server: ApiServer,
        operator: WorldOperator,
        cache: CacheOptions,
        (elects, seed): (bool, u64),
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            server,
            operator,
            cache,
            elects,
            seed,
            running: Mutex::default(),
            panics: Mutex::default(),
            ends: (sender, AsyncMutex::new(receiver)),
        }
    }

    fn manager(
        &self,
        process: usize,
        user: User,
        connection: &Arc<ProcessConnection>,
    ) -> Result<Arc<Manager>, BoxError> {
        let service = connection.service(self.server.service_as(user));
        let config = ClientConfig::in_process(service, "default");
        let server = self.server.clone();
        // The operator uses the server's wall clock, which the paused clock of the world advances.
        let mut builder = Manager::builder(config)
            .cache(self.cache.clone().seed(self.seed))
            .clock(move || server.now());
        if self.elects {
            let candidate = LeaderElection::new(LEASE)
                .namespace("default")
                .identity(format!("process-{process}"))
                .seed(process as u64)
                // A world may run on a slow machine, and must not end the test.
                .abort_on_overrun(false)
                .on_callers_runtime();
            builder = builder.leader_election(candidate);
        }
        let manager = builder.build()?;
        (self.operator.declare)(&manager)?;
        Ok(Arc::new(manager))
    }

    fn set_paused(&self, process: usize, is_paused: bool) {
        if let Some(running) = self.running.lock().get(&process) {
            running.connection.pause(is_paused);
        }
    }
}

#[async_trait]
impl OperatorHost for ManagerHost {
    async fn start(&self, process: usize, user: User) -> Result<(), ExploreError> {
        let connection = ProcessConnection::new();
        let manager = self
            .manager(process, user, &connection)
            .map_err(|source| ExploreError::Start { source })?;
        let ends = self.ends.0.clone();
        let started = Arc::clone(&manager);
        let task = tokio::spawn(async move {
            let ended = AssertUnwindSafe(started.start(CancellationToken::new()))
                .catch_unwind()
                .await;
            let how = match ended {
                Ok(Ok(())) => "the manager ended".to_owned(),
                Ok(Err(error)) => report(&error).to_string(),
                Err(panic) => format!("a panic: {}", panic_text(&*panic)),
            };
            // Fails only if the world has ended, so that no end matters.
            let _ = ends.send(ProcessEnd { process, how });
        });
        let running = RunningProcess {
            task,
            manager,
            connection,
        };
        self.running.lock().insert(process, running);
        Ok(())
    }

    async fn kill(&self, process: usize) {
        let running = self.running.lock().remove(&process);
        if let Some(RunningProcess {
            task,
            manager,
            connection,
        }) = running
        {
            let recent = manager.recent_reconciles().into_iter();
            let panics = recent.filter_map(|(_, reconcile)| panic_of(&reconcile));
            self.panics.lock().extend(panics);
            connection.end();
            task.abort();
            // The task was cancelled, or has ended before.
            let _ = task.await;
        }
    }

    /// Pauses the connection: to the rest of the world the process stands still. It finds that its Lease is lost.
    async fn pause(&self, process: usize) {
        self.set_paused(process, true);
    }

    async fn resume(&self, process: usize) {
        self.set_paused(process, false);
    }

    async fn ended(&self) -> ProcessEnd {
        match self.ends.1.lock().await.recv().await {
            Some(end) => end,
            // `self` holds a sender, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    fn output(&self, _: usize) -> Vec<String> {
        Vec::new()
    }

    fn reconciles(&self) -> ReconcileOutcomes {
        let mut panics = self.panics.lock().clone();
        let mut last: BTreeMap<(String, String), RecentReconcile> = BTreeMap::new();
        for running in self.running.lock().values() {
            for (controller, reconcile) in running.manager.recent_reconciles() {
                panics.extend(panic_of(&reconcile));
                let of_request = (controller, reconcile.request.clone());
                let is_newer = |known: &RecentReconcile| known.ended <= reconcile.ended;
                if last.get(&of_request).is_none_or(is_newer) {
                    last.insert(of_request, reconcile);
                }
            }
        }
        let failing = last
            .into_iter()
            .filter_map(|((controller, request), reconcile)| {
                let error = match reconcile.result {
                    ReconcileResult::Failed(error) => error,
                    ReconcileResult::TimedOut => "it took longer than its deadline".to_owned(),
                    _ => return None,
                };
                Some(format!("{controller} {request}: {error}"))
            });
        ReconcileOutcomes {
            failing: failing.collect(),
            panics,
        }
    }

    fn records(&self) -> Vec<Value> {
        (self.operator.records)()
    }
}

/// Returns the text of the panic with which a reconcile ended.
fn panic_of(reconcile: &RecentReconcile) -> Option<String> {
    match &reconcile.result {
        ReconcileResult::Panicked(text) => Some(text.clone()),
        _ => None,
    }
}
