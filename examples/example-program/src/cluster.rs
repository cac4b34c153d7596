//! Driver: finds the cluster of a program, or starts an API server in its process.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use steersman::ClientConfig;
use steersman::cli::{Config, Console};
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::{ApiServer, Serving};

use crate::BoxError;

/// The cluster of a program.
#[derive(Debug)]
pub struct Cluster {
    /// How requests reach the API server.
    pub client_config: ClientConfig,
    /// The API server, if it runs in this process.
    pub embedded: Option<ApiServer>,
    /// The sockets of the embedded API server, and the file with its kubeconfig.
    serving: Option<(Serving, Option<PathBuf>)>,
}

/// An API server in this process that listens on a free port.
#[derive(Debug)]
pub struct EmbeddedServer<'a> {
    /// The speed at which the server acts for the controllers and kubelets of a cluster.
    pub speed: Speed,
    /// The file for the kubeconfig; `None` for no file.
    pub kubeconfig: Option<&'a Path>,
    /// Commands of kubectl for the user to try.
    pub hints: &'a [&'a str],
}

impl Cluster {
    /// Returns the configured cluster, or an API server in this process if none is configured or `is_embedded` asks for
    /// the server.
    ///
    /// # Errors
    ///
    /// An error if the configuration cannot be used, or the server cannot start.
    pub async fn find<T>(
        config: &Config<T>,
        is_embedded: bool,
        server: EmbeddedServer<'_>,
    ) -> Result<Self, BoxError> {
        if is_embedded {
            return server.start(config.console(), "").await;
        }
        match Self::configured(config).await {
            Err(error) if error.is_no_config() => {
                let reason = "no cluster is configured: ";
                server.start(config.console(), reason).await
            }
            found => Ok(found?),
        }
    }

    /// Returns the configured cluster, and prints its address.
    ///
    /// # Errors
    ///
    /// An error if no cluster is configured, or the configuration cannot be used.
    pub async fn configured<T>(config: &Config<T>) -> Result<Self, steersman::cli::Error> {
        let client_config = config.connect().await?;
        let endpoint = client_config.endpoint();
        let console = config.console();
        console.say(format_args!("using the cluster at {endpoint}"));
        Ok(Self {
            client_config,
            embedded: None,
            serving: None,
        })
    }

    /// Starts an API server in this process without sockets, which works on a paused clock.
    pub fn in_process(speed: Speed) -> Self {
        let played = Played::everything().speed(speed);
        let server = ApiServer::builder().play(played).build();
        Self {
            client_config: ClientConfig::in_process(server.service(), "default"),
            embedded: Some(server),
            serving: None,
        }
    }

    /// Returns the wall clock: that of the embedded API server, which follows a paused clock, or that of the system.
    pub fn clock(&self) -> impl Fn() -> Timestamp + Clone + Send + Sync + use<> {
        let server = self.embedded.clone();
        move || server.as_ref().map_or_else(Timestamp::now, ApiServer::now)
    }

    /// Stops an embedded API server, and removes its kubeconfig unless another server has replaced the file.
    pub async fn stop(self) {
        let Some((serving, kubeconfig)) = self.serving else {
            return;
        };
        let ours = serving.kubeconfig();
        if let Some(file) = kubeconfig
            && std::fs::read_to_string(&file).is_ok_and(|text| text == ours)
        {
            // A file that stays names a closed port, which kubectl reports.
            let _ = std::fs::remove_file(&file);
        }
        serving.stop().await;
    }
}

impl EmbeddedServer<'_> {
    /// Starts the server, and prints its address after the reason for it.
    ///
    /// # Errors
    ///
    /// An error if the server cannot listen, or the kubeconfig cannot be written.
    pub async fn start(self, console: Console, reason: &str) -> Result<Cluster, BoxError> {
        let mut cluster = Cluster::in_process(self.speed);
        let Some(server) = &cluster.embedded else {
            return Ok(cluster);
        };
        let serving = server.serve("127.0.0.1:0").await?;
        let url = serving.url();
        console.say(format_args!("{reason}started an API server at {url}"));
        if let Some(path) = self.kubeconfig {
            serving.write_kubeconfig(path)?;
            console.say("in another terminal:");
            for hint in self.hints {
                let file = path.display();
                console.say(format_args!("  kubectl --kubeconfig {file} {hint}"));
            }
        }
        cluster.serving = Some((serving, self.kubeconfig.map(Path::to_path_buf)));
        Ok(cluster)
    }
}
