//! Driver: finds the cluster of the operator, or starts an API server in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman::ClientConfig;
use steersman::cli::{Config, Console};
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::{ApiServer, Serving};

use crate::narrator::Clock;
use crate::{BoxError, Settings};

/// The time that the Pod of a Job runs on the embedded API server.
const RUN_TIME: Duration = Duration::from_secs(5);

/// The cluster of the operator.
#[derive(Debug)]
pub struct Cluster {
    /// How requests reach its API server.
    pub client_config: ClientConfig,
    /// The API server, if it runs in this process.
    pub embedded: Option<Embedded>,
}

/// The embedded API server, and the kubeconfig that was written for it.
#[derive(Debug)]
pub struct Embedded {
    server: ApiServer,
    serving: Option<(Serving, PathBuf)>,
}

/// Returns the configured cluster.
///
/// # Errors
///
/// An error if no cluster is configured, or the configuration cannot be used.
pub async fn configured(config: &Config<Settings>) -> Result<Cluster, BoxError> {
    match config.connect().await {
        Ok(client_config) => {
            let endpoint = client_config.endpoint();
            config
                .console()
                .say(format_args!("using the cluster at {endpoint}"));
            Ok(Cluster {
                client_config,
                embedded: None,
            })
        }
        Err(error) if error.is_no_config() => {
            Err(format!("{error}: name a cluster, or run again with --embedded").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts an API server in this process. It listens on a free port if it shall write its kubeconfig into a file;
/// otherwise it has no sockets, and works on a paused clock.
///
/// # Errors
///
/// An error if the server cannot listen, or the file cannot be written.
pub async fn embedded(kubeconfig: Option<&Path>, console: Console) -> Result<Cluster, BoxError> {
    let speed = Speed::brisk().complete(RUN_TIME);
    let played = Played::everything().speed(speed);
    let server = ApiServer::builder().play(played).build();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let serving = match kubeconfig {
        None => {
            console.say(
                "started an API server in this process; its clock skips the time in which nothing happens",
            );
            None
        }
        Some(path) => {
            let serving = server.serve("127.0.0.1:0").await?;
            serving.write_kubeconfig(path)?;
            console.say(format_args!("started an API server at {}", serving.url()));
            let file = path.display();
            console.say("in another terminal:");
            console.say(format_args!(
                "  kubectl --kubeconfig {file} get cronjobs.batch.example.com,jobs -w"
            ));
            Some((serving, path.to_owned()))
        }
    };
    let embedded = Some(Embedded { server, serving });
    Ok(Cluster {
        client_config,
        embedded,
    })
}

impl Cluster {
    /// Returns the wall clock: that of the embedded API server, which follows a paused clock, or that of the system.
    pub fn clock(&self) -> Clock {
        match &self.embedded {
            Some(embedded) => {
                let server = embedded.server.clone();
                Arc::new(move || server.now())
            }
            None => Arc::new(Timestamp::now),
        }
    }
}

impl Embedded {
    /// Stops the server, and removes its kubeconfig unless another server has replaced the file.
    pub async fn stop(self) {
        if let Some((serving, file)) = self.serving {
            let ours = serving.kubeconfig();
            if std::fs::read_to_string(&file).is_ok_and(|text| text == ours) {
                // A file that stays names a closed port, which kubectl reports.
                let _ = std::fs::remove_file(&file);
            }
            serving.stop().await;
        }
    }
}
