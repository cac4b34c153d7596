//! Handle: an api-server for one test.

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use steersman_apiserver::{ApiServer, Serving};
use thiserror::Error;

/// Chooses an existing cluster, as it does for controller-runtime's envtest.
pub const USE_EXISTING_CLUSTER: &str = "USE_EXISTING_CLUSTER";

/// Why there is no environment.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded server could not listen.
    #[error("the embedded API server could not be started")]
    Embedded(#[from] steersman_apiserver::Error),
    /// A kubeconfig could not be used.
    #[error("the kubeconfig of the test environment cannot be used")]
    Kubeconfig(#[from] KubeconfigError),
    /// An existing cluster was asked for, and none is configured.
    #[error(
        "USE_EXISTING_CLUSTER is set, but no cluster is configured: set KUBECONFIG, or unset it"
    )]
    NoCluster(#[from] kube_client::config::InferConfigError),
}

/// An api-server for one test, gone when this is dropped unless it was there before.
#[derive(Debug)]
#[must_use = "the server stops when this is dropped"]
pub struct TestEnv {
    cluster: Cluster,
}

#[derive(Debug)]
enum Cluster {
    InProcess(ApiServer),
    Https(ApiServer, Serving, Box<Config>),
    Existing(Box<Config>),
}

impl TestEnv {
    /// The embedded server in this process, without sockets: fit for a paused clock.
    pub fn in_process() -> Self {
        Self::of(ApiServer::new())
    }

    /// An embedded server with options of the test's own, without sockets.
    pub fn of(server: ApiServer) -> Self {
        Self {
            cluster: Cluster::InProcess(server),
        }
    }

    /// The cluster that is there, where `USE_EXISTING_CLUSTER` is `true`; else the embedded server
    /// over HTTPS on a free port of the loopback. Never on a paused clock.
    ///
    /// # Errors
    ///
    /// When the existing cluster's configuration cannot be read, or the server cannot listen.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a server that was started by then stops.
    pub async fn start() -> Result<Self, Error> {
        if std::env::var(USE_EXISTING_CLUSTER).is_ok_and(|v| v == "true") {
            let config = Config::infer().await?;
            return Ok(Self {
                cluster: Cluster::Existing(Box::new(config)),
            });
        }
        Self::https(ApiServer::new()).await
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
        let serving = server.serve("127.0.0.1:0").await?;
        let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Self {
            cluster: Cluster::Https(server, serving, Box::new(config)),
        })
    }

    /// The embedded server, for its request log and its faults; none on an existing cluster.
    #[must_use]
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.cluster {
            Cluster::InProcess(server) | Cluster::Https(server, ..) => Some(server),
            Cluster::Existing(_) => None,
        }
    }

    /// The configuration of a client over the network; none in process, where a client is made of
    /// [`ApiServer::service`].
    #[must_use]
    pub fn config(&self) -> Option<&Config> {
        match &self.cluster {
            Cluster::InProcess(_) => None,
            Cluster::Https(_, _, config) | Cluster::Existing(config) => Some(config),
        }
    }

    /// The text of a kubeconfig for kubectl; only of an embedded server over HTTPS.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<String> {
        match &self.cluster {
            Cluster::Https(_, serving, _) => Some(serving.kubeconfig()),
            Cluster::InProcess(_) | Cluster::Existing(_) => None,
        }
    }

    /// Whether Deployments get pods by themselves: whether a controller-manager and nodes are
    /// behind the server. The embedded one collects what deleted owners leave and empties
    /// namespaces, and has neither workload controllers nor kubelets.
    #[must_use]
    pub fn has_controllers(&self) -> bool {
        matches!(self.cluster, Cluster::Existing(_))
    }
}
