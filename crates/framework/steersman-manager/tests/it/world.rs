//! A server, managers of it, and runnables that record what they do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::CacheOptions;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Reconciler, Request,
};
use steersman_manager::{Error, Group, Manager, ManagerBuilder, Runnable, runnable};
use steersman_object::TypedObject;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) fn manager_of(server: &ApiServer) -> ManagerBuilder {
    let client_config = ClientConfig::in_process(server.service(), "default");
    Manager::builder(client_config).cache(CacheOptions::new().seed(7))
}

/// Adds a controller of the kind `K` with every default.
pub(crate) fn add<K: TypedObject>(manager: &Manager, reconciler: impl Reconciler) {
    let controller = Controller::builder::<K>().build(reconciler).unwrap();
    manager.add_controller(controller).unwrap();
}

/// A started manager, with its cancellation.
pub(crate) struct Started {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), Error>>,
}

pub(crate) fn start(manager: &Manager) -> Started {
    let (manager, stop) = (manager.clone(), CancellationToken::new());
    let shutdown = stop.clone();
    let task = tokio::spawn(async move { manager.start(shutdown).await });
    Started { stop, task }
}

impl Started {
    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Result<(), Error> {
        soon(self.task).await.unwrap()
    }
}

/// Waits with a limit, so that a failure does not hang under a paused clock.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what)
        .await
        .unwrap()
}

/// A list of notes, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<watch::Sender<Vec<String>>>);

impl Notes {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.send_modify(|notes| notes.push(what.into()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Waits until `many` notes are recorded.
    pub(crate) async fn reach(&self, many: usize) {
        let mut notes = self.0.subscribe();
        soon(notes.wait_for(|notes| notes.len() >= many))
            .await
            .unwrap();
    }

    /// Returns a runnable that takes a second to be ready, and a second to stop.
    pub(crate) fn slow(&self, group: Group) -> impl Runnable + use<> {
        let notes = self.clone();
        runnable::from_fn(group.to_string(), group, move |context| async move {
            notes.note(format!("start {group}"));
            tokio::time::sleep(Duration::from_secs(1)).await;
            notes.note(format!("ready {group}"));
            context.ready();
            context.cancelled().await;
            notes.note(format!("stop {group}"));
            tokio::time::sleep(Duration::from_secs(1)).await;
            notes.note(format!("end {group}"));
            Ok(())
        })
        .saying_when_ready()
    }
}

/// A reconciler that sends the key of each request.
pub(crate) struct Tell(pub(crate) mpsc::UnboundedSender<String>);

impl Reconciler for Tell {
    async fn reconcile(&self, _: &Context, request: Request) -> Result<Action, ReconcileError> {
        self.0.send(request.key.to_string())?;
        Ok(Action::done())
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    })
}
