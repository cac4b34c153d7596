//! Handle: how an environment is set up.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_core::CustomResourceExt;
use serde_json::Value;
use steersman_apiserver::ApiServer;

use crate::backend::{Backend, Manners};
use crate::control_plane::ControlPlane;
use crate::definitions;
use crate::environment::{Cluster, TestEnv, alone};
use crate::error::Error;

/// Sets up a [`TestEnv`]. Nothing is done before `start`.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestEnvBuilder {
    backend: Option<Backend>,
    in_process: bool,
    server: Option<ApiServer>,
    arguments: Vec<String>,
    start_within: Option<Duration>,
    definitions: Vec<Value>,
    paths: Vec<PathBuf>,
}

impl TestEnv {
    /// Sets up an environment.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }
}

impl TestEnvBuilder {
    /// What stands behind it. Default: what the environment's variables choose
    /// ([`Backend::from_env`]).
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Without sockets, whatever the variables say: fit for a paused clock.
    pub fn in_process(mut self) -> Self {
        self.in_process = true;
        self
    }

    /// The embedded server with options of the test's own, where it is the embedded one. Default:
    /// one that is like a new one but for RBAC, which is on.
    pub fn server(mut self, server: ApiServer) -> Self {
        self.server = Some(server);
        self
    }

    /// One more argument of a real kube-apiserver, for instance `--feature-gates=…`; it overrides
    /// the environment's own. Other servers do not look at it.
    pub fn kube_apiserver_argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// How long each real binary may take to be ready. Default 20 s, or what
    /// `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT` says.
    pub fn start_within(mut self, patience: Duration) -> Self {
        self.start_within = Some(patience);
        self
    }

    /// Installs the definition of a custom resource that a struct describes.
    pub fn crd_of<K: CustomResourceExt>(self) -> Self {
        // Serialising a definition does not fail: its keys are text. Null would be refused by name.
        self.crd(serde_json::to_value(K::crd()).unwrap_or_default())
    }

    /// Installs a definition.
    pub fn crd(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Installs the definitions in a file, or in the YAML and JSON files of a folder and those below
    /// it; a file may hold several documents, and other kinds in it are left alone.
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Starts the server, installs the definitions, and waits until they are served.
    ///
    /// # Errors
    ///
    /// When the existing cluster's configuration cannot be read, a binary does not come up, the
    /// server cannot listen, or a definition is missing, refused or not served within 10 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a server that was started by then stops.
    pub async fn start(self) -> Result<TestEnv, Error> {
        // Files first: no server is started for a path that is wrong.
        let mut definitions = self.definitions;
        for path in &self.paths {
            definitions.extend(definitions::collect(path)?);
        }
        let server = self.server.unwrap_or_else(alone);
        let backend = self.backend.unwrap_or_else(Backend::from_env);
        let env = if self.in_process {
            TestEnv::of(server)
        } else {
            match backend {
                Backend::Embedded => embedded(server).await?,
                Backend::Binaries(assets) => {
                    let mut manners = Manners::from_env()?;
                    manners.start = self.start_within.unwrap_or(manners.start);
                    let started = ControlPlane::start(&assets, manners, &self.arguments).await?;
                    let (control_plane, kubeconfig) = started;
                    let config = Box::new(config(kubeconfig.clone()).await?);
                    TestEnv::new(Cluster::Binaries(control_plane, config), Some(kubeconfig))
                }
                Backend::Existing => {
                    let config = Config::infer().await?;
                    // From within a Pod there is none, and the configuration is still good.
                    TestEnv::new(Cluster::Existing(Box::new(config)), Kubeconfig::read().ok())
                }
            }
        };
        if !definitions.is_empty() {
            env.install_crds(&definitions).await?;
        }
        Ok(env)
    }
}

async fn embedded(server: ApiServer) -> Result<TestEnv, Error> {
    let serving = server.serve("127.0.0.1:0").await?;
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig())?;
    let config = Box::new(config(kubeconfig.clone()).await?);
    let cluster = Cluster::Https(server, serving, config);
    Ok(TestEnv::new(cluster, Some(kubeconfig)))
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config, Error> {
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}
