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
use steersman_manager::Manager;
use steersman_object::{panic_text, report};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::User;
use steersman_testenv::apiserver::explore::{ExploreError, OperatorHost, ProcessEnd};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::BoxError;
use crate::external::WorldOperator;

/// The processes of one world: each is a manager of its own.
pub(super) struct ManagerHost {
    server: ApiServer,
    operator: WorldOperator,
    cache: CacheOptions,
    running: Mutex<BTreeMap<usize, JoinHandle<()>>>,
    ends: (
        mpsc::UnboundedSender<ProcessEnd>,
        AsyncMutex<mpsc::UnboundedReceiver<ProcessEnd>>,
    ),
}

impl ManagerHost {
    pub(super) fn new(server: ApiServer, operator: WorldOperator, cache: CacheOptions) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            server,
            operator,
            cache,
            running: Mutex::default(),
            ends: (sender, AsyncMutex::new(receiver)),
        }
    }

    fn manager(&self, user: User) -> Result<Arc<Manager>, BoxError> {
        let config = ClientConfig::in_process(self.server.service_as(user), "default");
        let server = self.server.clone();
        // The operator uses the server's wall clock, which the paused clock of the world advances.
        let builder = Manager::builder(config)
            .cache(self.cache.clone())
            .clock(move || server.now());
        let manager = builder.build()?;
        (self.operator.declare)(&manager)?;
        Ok(Arc::new(manager))
    }
}

#[async_trait]
impl OperatorHost for ManagerHost {
    async fn start(&self, process: usize, user: User) -> Result<(), ExploreError> {
        let manager = self
            .manager(user)
            .map_err(|source| ExploreError::Start { source })?;
        let ends = self.ends.0.clone();
        let task = tokio::spawn(async move {
            let ended = AssertUnwindSafe(manager.start(CancellationToken::new()))
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
        self.running.lock().insert(process, task);
        Ok(())
    }

    async fn kill(&self, process: usize) {
        let task = self.running.lock().remove(&process);
        if let Some(task) = task {
            task.abort();
            // The task was cancelled, or has ended before.
            let _ = task.await;
        }
    }

    /// Does nothing: the server holds back the request that the process sent, and the process finds that its lease is
    /// lost.
    async fn pause(&self, _: usize) {}

    async fn resume(&self, _: usize) {}

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

    fn records(&self) -> Vec<Value> {
        (self.operator.records)()
    }
}
