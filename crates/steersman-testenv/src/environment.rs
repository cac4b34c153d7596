//! Handle: an api-server for one test.

use std::path::Path;
use std::sync::Arc;

use kube_client::config::Kubeconfig;
use kube_client::{Client, Config};
use parking_lot::Mutex;
use serde_json::Value;
use steersman_apiserver::{ApiServer, Authorization, Serving};

use crate::backend::Backend;
pub use crate::backend::USE_EXISTING_CLUSTER;
use crate::control_plane::ControlPlane;
use crate::definitions;
pub use crate::error::Error;
use crate::rest::{Rest, client_in_process};

/// An api-server for one test, gone when this is dropped unless it was there before.
///
/// On an existing cluster namespaces, users' roles and their bindings are taken away at the end;
/// definitions stay.
#[derive(Debug)]
#[must_use = "the server stops when this is dropped"]
pub struct TestEnv {
    // Before what it is told of: it is cleaned up while the server still answers.
    pub(crate) leftovers: Leftovers,
    pub(crate) cluster: Cluster,
    kubeconfig: Option<Kubeconfig>,
    pub(crate) registries: Mutex<Vec<prometheus::Registry>>,
}

#[derive(Debug)]
pub(crate) enum Cluster {
    InProcess(ApiServer),
    Https(ApiServer, Serving, Box<Config>),
    Binaries(ControlPlane, Box<Config>),
    Existing(Box<Config>),
}

/// What has to be deleted from a cluster that outlives the environment.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// How to reach it; none where the server ends with the environment, which takes everything.
    config: Option<Config>,
    paths: Arc<Mutex<Vec<String>>>,
}

// === impl TestEnv ===

impl TestEnv {
    /// The embedded server in this process, without sockets: fit for a paused clock. RBAC is on, and
    /// whoever asks [`ApiServer::service`] may do everything.
    pub fn in_process() -> Self {
        Self::of(alone())
    }

    /// An embedded server with options of the test's own, without sockets.
    pub fn of(server: ApiServer) -> Self {
        Self::new(Cluster::InProcess(server), None)
    }

    /// What the environment's variables choose ([`Backend::from_env`]): the cluster that is there,
    /// real binaries, or else the embedded server over HTTPS on a free port of the loopback. Never
    /// on a paused clock.
    ///
    /// # Errors
    ///
    /// When the existing cluster's configuration cannot be read, a binary does not come up, or the
    /// server cannot listen.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a server that was started by then stops.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// An embedded server with options of the test's own, over HTTPS. Never on a paused clock.
    ///
    /// # Errors
    ///
    /// When the server cannot listen.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a server that was started by then stops.
    pub async fn https(server: ApiServer) -> Result<Self, Error> {
        Self::builder()
            .backend(Backend::Embedded)
            .server(server)
            .start()
            .await
    }

    pub(crate) fn new(cluster: Cluster, kubeconfig: Option<Kubeconfig>) -> Self {
        let config = match &cluster {
            Cluster::Existing(config) => Some((**config).clone()),
            Cluster::InProcess(_) | Cluster::Https(..) | Cluster::Binaries(..) => None,
        };
        Self {
            leftovers: Leftovers {
                config,
                paths: Arc::default(),
            },
            cluster,
            kubeconfig,
            registries: Mutex::default(),
        }
    }

    /// The embedded server, for its request log and its faults; none on other servers.
    #[must_use]
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.cluster {
            Cluster::InProcess(server) | Cluster::Https(server, ..) => Some(server),
            Cluster::Binaries(..) | Cluster::Existing(_) => None,
        }
    }

    /// The configuration of a client over the network; none in process, where a client is made of
    /// [`ApiServer::service`].
    #[must_use]
    pub fn config(&self) -> Option<&Config> {
        match &self.cluster {
            Cluster::InProcess(_) => None,
            Cluster::Https(_, _, config)
            | Cluster::Binaries(_, config)
            | Cluster::Existing(config) => Some(config),
        }
    }

    /// A client of somebody who may do everything, whatever the server is. It belongs to the
    /// runtime in which it is made.
    ///
    /// # Errors
    ///
    /// Where the configuration makes no client, for instance because a certificate cannot be read.
    pub fn client(&self) -> Result<Client, kube_client::Error> {
        match self.config() {
            Some(config) => Client::try_from(config.clone()),
            None => Ok(self.in_process_client(Vec::new())),
        }
    }

    /// The text of a kubeconfig for kubectl and other programs, of somebody who may do everything;
    /// none in process, and none for a cluster that was found without one, from within a Pod.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<String> {
        to_yaml(self.kubeconfig.as_ref()?)
    }

    pub(crate) fn kubeconfig_as(&self, change: impl Fn(&mut Kubeconfig)) -> Option<String> {
        let mut kubeconfig = self.kubeconfig.clone()?;
        change(&mut kubeconfig);
        to_yaml(&kubeconfig)
    }

    /// Whether Deployments get pods by themselves: whether a controller-manager and nodes are
    /// behind the server. The real binaries have neither; the embedded one collects what deleted
    /// owners leave and empties namespaces, and has neither workload controllers nor kubelets.
    #[must_use]
    pub fn has_controllers(&self) -> bool {
        matches!(self.cluster, Cluster::Existing(_))
    }

    /// Installs the definitions in a file or a folder and waits until they are served, as
    /// [`TestEnvBuilder::crds_from`](crate::TestEnvBuilder::crds_from) does at the start.
    ///
    /// # Errors
    ///
    /// When there is none, a file is unreadable, or the server refuses one or does not serve it
    /// within 10 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: some of them may be installed by then.
    pub async fn install_crds_from(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let found = definitions::collect(path.as_ref())?;
        self.install_crds(&found).await
    }

    /// Installs definitions and waits until they are served; one that is there is replaced.
    ///
    /// # Errors
    ///
    /// When the server refuses one, or does not serve it within 10 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: some of them may be installed by then.
    pub async fn install_crds(&self, definitions: &[Value]) -> Result<(), Error> {
        definitions::install(&self.rest()?, definitions).await
    }

    /// Adds a registry of controllers' metrics, from which the reports of
    /// [`expect`](Self::expect) tell how reconciles ended.
    pub fn observe(&self, registry: prometheus::Registry) {
        self.registries.lock().push(registry);
    }

    /// Ends the environment in order: takes away what it left on an existing cluster, asks real
    /// binaries to end. Dropping it does the same, but kills them.
    ///
    /// # Errors
    ///
    /// When an existing cluster does not let go of something.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the rest is done as by a drop.
    pub async fn stop(self) -> Result<(), Error> {
        self.leftovers.remove().await?;
        match self.cluster {
            Cluster::Binaries(control_plane, _) => control_plane.stop().await,
            Cluster::Https(_, serving, _) => serving.stop().await,
            Cluster::InProcess(server) => server.shut_down(),
            Cluster::Existing(_) => {}
        }
        Ok(())
    }

    /// The environment's own requests.
    pub(crate) fn rest(&self) -> Result<Rest, Error> {
        match (&self.cluster, self.config()) {
            (Cluster::InProcess(server), _) => Ok(Rest::in_process(server)),
            (_, Some(config)) => Rest::over_network(config).map_err(|source| Error::Request {
                doing: "making a client of the environment".to_owned(),
                source: Box::new(source),
            }),
            // Every server but the one in process has a configuration.
            (_, None) => Ok(Rest::in_process(&ApiServer::new())),
        }
    }

    pub(crate) fn in_process_client(
        &self,
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
    ) -> Client {
        // Called where there is no configuration, which is where there is a server.
        let server = self.server().cloned().unwrap_or_default();
        client_in_process(&server, headers)
    }
}

/// The embedded server where a test brings none: like the real ones it asks what users may do.
pub(crate) fn alone() -> ApiServer {
    ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build()
}

fn to_yaml(kubeconfig: &Kubeconfig) -> Option<String> {
    serde_saphyr::to_string(kubeconfig).ok()
}

// === impl Leftovers ===

impl Leftovers {
    /// Notes what has to go, by its path.
    pub(crate) fn add(&self, path: String) {
        if self.config.is_some() {
            self.paths.lock().push(path);
        }
    }

    /// Notes that somebody else took it away.
    pub(crate) fn forget(&self, path: &str) {
        self.paths.lock().retain(|one| one != path);
    }

    async fn remove(&self) -> Result<(), Error> {
        let Some(config) = &self.config else {
            return Ok(());
        };
        remove(config, &self.paths).await
    }
}

/// Deletes what was made last first, and forgets what is gone.
async fn remove(config: &Config, paths: &Mutex<Vec<String>>) -> Result<(), Error> {
    let failed = |path: &str, source| Error::Request {
        doing: format!("the removal of {path}"),
        source: Box::new(source),
    };
    let rest = Rest::over_network(config).map_err(|source| failed("leftovers", source))?;
    loop {
        let Some(path) = paths.lock().last().cloned() else {
            return Ok(());
        };
        let deleted = rest.delete(&path).await;
        deleted.map_err(|source| failed(&path, source))?;
        paths.lock().retain(|one| *one != path);
    }
}

impl Drop for Leftovers {
    /// A drop cannot wait in the test's runtime, which may be ending: a thread with a runtime of its
    /// own does, for ten seconds at most.
    fn drop(&mut self) {
        let Some(config) = self.config.take().filter(|_| !self.paths.lock().is_empty()) else {
            return;
        };
        let paths = Arc::clone(&self.paths);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                let patience = std::time::Duration::from_secs(10);
                let remove = remove(&config, &paths);
                let _ = runtime.block_on(async { tokio::time::timeout(patience, remove).await });
            }
        });
        // A panic there is no reason for another one here.
        let _ = thread.join();
    }
}
