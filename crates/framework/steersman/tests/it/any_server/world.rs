//! A server of the environment's choice, a namespace on it, and managers that run.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::cache::{Cache, CacheOptions};
use steersman::manager::Error;
use steersman::{CancellationToken, Client, ClientConfig, Manager, ObjectKey};
use steersman_testenv::{TestEnv, TestNamespace, User};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The label of the ConfigMaps of the tests: a cluster creates further ConfigMaps in each namespace.
pub(super) const LABEL: (&str, &str) = ("steersman-test", "yes");

/// A server with a namespace for one test.
pub(super) struct World {
    pub(super) env: TestEnv,
    pub(super) namespace: TestNamespace,
    /// A client of the administrator; its cache does not run.
    pub(super) client: Client,
}

/// A manager that runs. Dropping it drops the manager, as the end of its process would.
pub(super) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl World {
    pub(super) async fn start() -> Self {
        let env = TestEnv::start().await.unwrap();
        let namespace = env.namespace("any-server").await.unwrap();
        let client_config = ClientConfig::from_config(env.config().unwrap().clone());
        let client = Client::new(Cache::new(CacheOptions::new()).unwrap(), client_config);
        Self {
            env,
            namespace,
            client,
        }
    }

    /// Returns a user of this test with these verbs on a resource in the namespace of the test.
    pub(super) async fn user(&self, name: &str, verbs: &[&str], resource: &str) -> User {
        let user = self.env.user(format!("{name}-of-{}", self.namespace));
        let user = user.allow_in(&self.namespace, verbs.iter().copied(), [resource]);
        user.create().await.unwrap()
    }

    pub(super) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&*self.namespace, name)
    }
}

impl Running {
    pub(super) fn start(manager: &Manager) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.start(stop.clone()));
        Self { stop, task }
    }

    /// Stops the manager in order.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }

    /// Waits until the manager has ended.
    pub(super) async fn ended(mut self) -> Result<(), Error> {
        soon(&mut self.task).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a connection with the permissions of a user.
pub(super) fn connection_of(user: &User) -> ClientConfig {
    ClientConfig::from_config(user.config().unwrap().clone())
}

/// Returns a ConfigMap with the [`LABEL`].
pub(super) fn config_map(namespace: &str, name: &str) -> ConfigMap {
    let mut map = ConfigMap {
        metadata: ObjectKey::namespaced(namespace, name).to_meta(),
        ..ConfigMap::default()
    };
    let (label, value) = LABEL;
    map.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
    map
}

/// Waits with a limit, so that a failure is no hang.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(120), what).await.unwrap()
}
