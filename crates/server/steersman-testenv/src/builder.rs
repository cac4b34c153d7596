//! Handle: the builder of an environment.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::Config;
use kube_client::config::Kubeconfig;
use kube_core::CustomResourceExt;
use serde_json::Value;
use steersman_apiserver::ApiServer;

use crate::backend::{Backend, ProcessOptions};
use crate::control_plane::ControlPlane;
use crate::definitions;
use crate::environment::{Cluster, TestEnv, alone};
use crate::error::Error;
use crate::rest::config;

/// A builder of a [`TestEnv`]. Does nothing before `start`.
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
    /// Starts to build an environment.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }
}

impl TestEnvBuilder {
    /// Sets the backend. Default: the one that the environment variables select ([`Backend::from_env`]).
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Runs the embedded server in process, without sockets, regardless of the environment variables, so that it works
    /// on a paused clock.
    pub fn in_process(mut self) -> Self {
        self.in_process = true;
        self
    }

    /// Sets the embedded server, if that is the backend. Default: a new one with RBAC on.
    pub fn server(mut self, server: ApiServer) -> Self {
        self.server = Some(server);
        self
    }

    /// Adds an argument of a real kube-apiserver, for example `--feature-gates=…`; it overrides the
    /// environment's own. Other backends ignore it.
    pub fn kube_apiserver_argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets the time limit of each binary's start. Default: `$KUBEBUILDER_CONTROLPLANE_START_TIMEOUT`, else 20 s.
    pub fn start_within(mut self, patience: Duration) -> Self {
        self.start_within = Some(patience);
        self
    }

    /// Installs the definition of a custom resource type.
    pub fn crd_of<K: CustomResourceExt>(self) -> Self {
        // A definition always serialises, because its keys are strings.
        self.crd(serde_json::to_value(K::crd()).unwrap_or_default())
    }

    /// Installs a definition.
    pub fn crd(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Installs the definitions in a file, or in the YAML and JSON files of a folder and its
    /// sub-folders. A file may hold several documents; other kinds are ignored.
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Reads the definitions that [`start`](Self::start) installs.
    ///
    /// # Errors
    /// If a file is unreadable, or a path has no definition.
    pub fn definitions(&self) -> Result<Vec<Value>, Error> {
        let mut all = self.definitions.clone();
        for path in &self.paths {
            all.extend(definitions::collect(path)?);
        }
        Ok(all)
    }

    /// Starts the server, installs the definitions, and waits until they are served.
    ///
    /// # Errors
    /// If the configuration of the existing cluster cannot be read, a binary does not start, the
    /// server cannot listen, or a definition is missing, refused or not served within 10 s.
    ///
    /// # Cancel safety
    /// Cancel safe: a server that was started stops.
    pub async fn start(self) -> Result<TestEnv, Error> {
        // Files first: an invalid path must not start a server.
        let definitions = self.definitions()?;
        let server = self.server.unwrap_or_else(alone);
        let backend = self.backend.unwrap_or_else(Backend::from_env);
        let env = if self.in_process {
            TestEnv::of(server)
        } else {
            match backend {
                Backend::Embedded => embedded(server).await?,
                Backend::Binaries(assets) => {
                    let mut options = ProcessOptions::from_env()?;
                    options.start = self.start_within.unwrap_or(options.start);
                    let started = ControlPlane::start(&assets, options, &self.arguments).await?;
                    let (control_plane, kubeconfig) = started;
                    let config = Box::new(config(&kubeconfig).await?);
                    TestEnv::new(Cluster::Binaries(control_plane, config), Some(kubeconfig))
                }
                Backend::Existing => {
                    let config = Config::infer().await?;
                    // Within a Pod there is no kubeconfig, but the configuration is valid.
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
    let config = Box::new(config(&kubeconfig).await?);
    let cluster = Cluster::Https(server, serving, config);
    Ok(TestEnv::new(cluster, Some(kubeconfig)))
}
