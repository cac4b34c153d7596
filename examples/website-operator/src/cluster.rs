//! Driver: finds the cluster of the operator, or starts an API server in this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steersman::ClientConfig;
use steersman::cli::{Config, Console};
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::{ApiServer, Serving};

use crate::webhooks::{NAME, Webhooks};
use crate::{BoxError, Settings};

/// The time that a Pod on the embedded API server takes to become ready.
const STARTUP: Duration = Duration::from_secs(1);

/// The embedded API server, and the kubeconfig that was written for it.
#[derive(Debug)]
pub struct Embedded {
    server: ApiServer,
    serving: Serving,
    kubeconfig: Option<PathBuf>,
}

impl Embedded {
    /// Returns webhooks to which the server sends the requests for their Service.
    ///
    /// # Errors
    ///
    /// An error if no port is free.
    pub fn webhooks(&self) -> Result<Webhooks, BoxError> {
        let webhooks = Webhooks::local("default")?;
        let url = format!("https://{}", webhooks.address);
        self.server
            .route_service(&webhooks.namespace, NAME, 443, &url);
        Ok(webhooks)
    }
}

/// Returns the configured cluster, or an API server in this process if none is configured or `is_embedded` asks for
/// the server. The server writes its kubeconfig into the file, if there is one.
///
/// # Errors
///
/// An error if the configuration cannot be used, or the server cannot start.
pub async fn find(
    config: &Config<Settings>,
    is_embedded: bool,
    kubeconfig: Option<&Path>,
) -> Result<(ClientConfig, Option<Embedded>), BoxError> {
    let console = config.console();
    if is_embedded {
        return embedded(console, "", kubeconfig).await;
    }
    match config.connect().await {
        Ok(client_config) => {
            console.say(format_args!(
                "using the cluster at {}",
                client_config.endpoint()
            ));
            Ok((client_config, None))
        }
        Err(error) if error.is_no_config() => {
            embedded(console, "no cluster is configured: ", kubeconfig).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts the server, and says so after the reason for it.
async fn embedded(
    console: Console,
    reason: &str,
    kubeconfig: Option<&Path>,
) -> Result<(ClientConfig, Option<Embedded>), BoxError> {
    let played = Played::everything().speed(Speed::brisk().start(STARTUP));
    let server = ApiServer::builder().play(played).build();
    let serving = server.serve("127.0.0.1:0").await?;
    let url = serving.url();
    console.say(format_args!("{reason}started an API server at {url}"));
    let client_config = ClientConfig::in_process(server.service(), "default");
    if let Some(path) = kubeconfig {
        serving.write_kubeconfig(path)?;
        let file = path.display();
        console.say("in another terminal:");
        console.say(format_args!("  kubectl --kubeconfig {file} get websites"));
        console.say(format_args!(
            "  kubectl --kubeconfig {file} scale website hello --replicas 3"
        ));
        console.say(format_args!("  kubectl --kubeconfig {file} get pods -w"));
    }
    let embedded = Embedded {
        server,
        serving,
        kubeconfig: kubeconfig.map(Path::to_path_buf),
    };
    Ok((client_config, Some(embedded)))
}

/// Stops the server, and removes its kubeconfig unless another server has replaced the file.
pub async fn stop(embedded: Option<Embedded>) {
    let Some(Embedded {
        serving,
        kubeconfig,
        ..
    }) = embedded
    else {
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
