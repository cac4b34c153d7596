//! Handle: an API server for one test.

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
use crate::page::ServerPage;
use crate::rbac_rules::RbacRules;
use crate::rest::{Rest, client_in_process, of_test};

/// An API server for one test. Dropping it stops the server, unless it is an existing cluster.
///
/// On an existing cluster, namespaces, roles of users and their bindings are deleted at the end; definitions remain.
#[derive(Debug)]
#[must_use = "the server stops when this is dropped"]
pub struct TestEnv {
    // The first field, so that it is dropped and cleaned up while the server still runs.
    pub(crate) leftovers: Leftovers,
    /// The page of the embedded server, if `STEERSMAN_UI` asks for it.
    _page: Option<ServerPage>,
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

/// The objects to delete from a cluster that outlives the environment.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// The configuration of the cluster; `None` if the server ends with the environment.
    config: Option<Config>,
    paths: Arc<Mutex<Vec<String>>>,
}

// === impl TestEnv ===

impl TestEnv {
    /// Creates an environment with the embedded server in this process, without sockets, so that it works on a paused
    /// clock. RBAC is on, and clients of [`ApiServer::service`] have all permissions.
    pub fn in_process() -> Self {
        Self::of(alone())
    }

    /// Creates an environment with this embedded server, without sockets.
    pub fn of(server: ApiServer) -> Self {
        Self::new(Cluster::InProcess(server), None)
    }

    /// Starts the server that the environment variables select ([`Backend::from_env`]): an existing cluster, real
    /// binaries, or by default the embedded server over HTTPS on a free loopback port. Does not work on a paused clock.
    ///
    /// # Errors
    /// If the configuration of the existing cluster cannot be read, a binary does not start, or the server cannot
    /// listen.
    ///
    /// # Cancel safety
    /// Cancel safe: a server that was started stops.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts this embedded server over HTTPS. Does not work on a paused clock.
    ///
    /// # Errors
    /// If the server cannot listen.
    ///
    /// # Cancel safety
    /// Cancel safe: a server that was started stops.
    pub async fn https(server: ApiServer) -> Result<Self, Error> {
        let builder = Self::builder().backend(Backend::Embedded).server(server);
        builder.start().await
    }

    pub(crate) fn new(cluster: Cluster, kubeconfig: Option<Kubeconfig>) -> Self {
        let config = match &cluster {
            Cluster::Existing(config) => Some((**config).clone()),
            Cluster::InProcess(_) | Cluster::Https(..) | Cluster::Binaries(..) => None,
        };
        let page = match &cluster {
            Cluster::InProcess(server) => ServerPage::of(server, true),
            Cluster::Https(server, ..) => ServerPage::of(server, false),
            Cluster::Binaries(..) | Cluster::Existing(_) => None,
        };
        let paths = Arc::default();
        Self {
            leftovers: Leftovers { config, paths },
            _page: page,
            cluster,
            kubeconfig,
            registries: Mutex::default(),
        }
    }

    /// Returns the embedded server, for its request log and its faults; `None` for other servers.
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.cluster {
            Cluster::InProcess(server) | Cluster::Https(server, ..) => Some(server),
            Cluster::Binaries(..) | Cluster::Existing(_) => None,
        }
    }

    /// Returns the configuration of a client over the network; `None` in process, where
    /// [`ApiServer::service`] is the transport.
    pub fn config(&self) -> Option<&Config> {
        match &self.cluster {
            Cluster::InProcess(_) => None,
            Cluster::Https(_, _, config)
            | Cluster::Binaries(_, config)
            | Cluster::Existing(config) => Some(config),
        }
    }

    /// Creates a client with all permissions, for requests of the test itself: its `User-Agent` is
    /// that of the environment. The client belongs to the runtime in which it is created.
    ///
    /// # Errors
    /// If the configuration is invalid, for example because a certificate cannot be read.
    pub fn client(&self) -> Result<Client, kube_client::Error> {
        match self.config() {
            Some(config) => {
                let mut config = config.clone();
                config.headers.push(of_test());
                Client::try_from(config)
            }
            None => Ok(self.in_process_client(vec![of_test()])),
        }
    }

    /// Returns a kubeconfig with all permissions as text, for kubectl and other programs; `None` in
    /// process, and for a cluster that was found from within a Pod.
    pub fn kubeconfig(&self) -> Option<String> {
        to_yaml(self.kubeconfig.as_ref()?)
    }

    pub(crate) fn kubeconfig_as(&self, change: impl Fn(&mut Kubeconfig)) -> Option<String> {
        let mut kubeconfig = self.kubeconfig.clone()?;
        change(&mut kubeconfig);
        to_yaml(&kubeconfig)
    }

    /// Returns whether the server has a controller-manager and nodes, so that Deployments get Pods. The real binaries
    /// have neither; the embedded server has only garbage collection and namespace deletion.
    pub fn has_controllers(&self) -> bool {
        matches!(self.cluster, Cluster::Existing(_))
    }

    /// Installs the definitions in a file or a folder and waits until they are served, like
    /// [`TestEnvBuilder::crds_from`](crate::TestEnvBuilder::crds_from) at the start.
    ///
    /// # Errors
    /// If the path has no definition, a file is unreadable, or the server refuses a definition or does not serve it
    /// within 10 s.
    ///
    /// # Cancel safety
    /// Cancel safe: some definitions may already be installed.
    pub async fn install_crds_from(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let found = definitions::collect(path.as_ref())?;
        self.install_crds(&found).await
    }

    /// Installs definitions and waits until they are served; existing definitions are replaced.
    ///
    /// # Errors
    /// If the server refuses a definition or does not serve it within 10 s.
    ///
    /// # Cancel safety
    /// Cancel safe: some definitions may already be installed.
    pub async fn install_crds(&self, definitions: &[Value]) -> Result<(), Error> {
        definitions::install(&self.rest()?, definitions).await
    }

    /// Adds a registry of controller metrics; the reports of [`expect`](Self::expect) then include the results of
    /// reconciles.
    pub fn observe(&self, registry: prometheus::Registry) {
        self.registries.lock().push(registry);
    }

    /// Returns the least ClusterRole that permits the requests of this test so far, as YAML, for a
    /// comparison with a file. The requests of the environment itself, of [`client`](Self::client)
    /// and of the harness do not count; see [`RbacRules::requested`].
    ///
    /// The server is not asked for these permissions, so they are not in the role: `impersonate`, `bind` and
    /// `escalate`, `approve` and `sign`, and `update` of `…/finalizers` for owner references with `blockOwnerDeletion`.
    ///
    /// # Errors
    /// If the server is not the embedded one ([`Error::NoRequestLog`]), or its log has dropped
    /// requests ([`Error::RequestsForgotten`]).
    pub fn rbac_needed(&self, name: &str) -> Result<String, Error> {
        let server = self.server().ok_or(Error::NoRequestLog)?;
        let forgotten = server.requests().forgotten();
        if forgotten > 0 {
            return Err(Error::RequestsForgotten { forgotten });
        }
        Ok(RbacRules::requested(server, |_| true).cluster_role(name))
    }

    /// Ends the environment: deletes its objects on an existing cluster, and terminates real
    /// binaries. A drop does the same, but kills the binaries.
    ///
    /// # Errors
    /// If an object on an existing cluster cannot be deleted.
    ///
    /// # Cancel safety
    /// Cancel safe: the remaining steps are done as in a drop.
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

    pub(crate) fn rest(&self) -> Result<Rest, Error> {
        match (&self.cluster, self.config()) {
            (Cluster::InProcess(server), _) => Ok(Rest::in_process(server)),
            (_, Some(config)) => Rest::over_network(config)
                .map_err(|source| Error::request("the creation of a client", source)),
            // Every server except the one in process has a configuration.
            (_, None) => Ok(Rest::in_process(&ApiServer::new())),
        }
    }

    pub(crate) fn in_process_client(
        &self,
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
    ) -> Client {
        // Called without a configuration only, which means that there is an embedded server.
        let server = self.server().cloned().unwrap_or_default();
        client_in_process(&server, headers)
    }
}

/// Creates the default embedded server, with RBAC on as in a real cluster.
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
    pub(crate) fn add(&self, path: String) {
        if self.config.is_some() {
            self.paths.lock().push(path);
        }
    }

    pub(crate) fn forget(&self, path: &str) {
        self.paths.lock().retain(|one| one != path);
    }

    async fn remove(&self) -> Result<(), Error> {
        match &self.config {
            Some(config) => remove(config, &self.paths).await,
            None => Ok(()),
        }
    }
}

/// Deletes objects in reverse order of creation, and removes deleted objects from the list.
async fn remove(config: &Config, paths: &Mutex<Vec<String>>) -> Result<(), Error> {
    let failed = |path: &str, source| Error::request(format!("the removal of {path}"), source);
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
    /// A drop cannot wait in the test's runtime, which may be ending, so a thread with its own
    /// runtime deletes the objects, for at most ten seconds.
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
        // A panic of that thread must not cause another panic here.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_request_log_gives_an_error() {
        let config = Config::new(http::Uri::from_static("https://127.0.0.1:1"));
        let env = TestEnv::new(Cluster::Existing(Box::new(config)), None);
        let error = env.rbac_needed("operator").unwrap_err();
        assert!(matches!(error, Error::NoRequestLog), "{error}");
    }
}
