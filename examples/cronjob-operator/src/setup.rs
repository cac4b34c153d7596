//! Driver: installs the kind and the sample, and checks that the server serves the kind.

use std::time::Duration;

use steersman::cli::Console;
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::Object as _;
use steersman::{Client, ListOptions, ObjectKey, client};
use thiserror::Error;

use crate::cron_job::CronJob;

/// How long the server may take to serve the kind after its definition was installed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The manifest of the sample.
pub const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// The reason why the operator cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The server does not serve the kind.
    #[error(
        "the server at {endpoint} does not serve cronjobs.batch.example.com: run again with --install"
    )]
    NotInstalled {
        /// The server's address.
        endpoint: String,
        /// The server's error.
        source: client::Error,
    },
    /// The manifest of the sample does not parse.
    #[error("manifests/sample.yaml cannot be read")]
    Sample(#[from] serde_saphyr::Error),
    /// The server refused a request, or is unreachable.
    #[error(transparent)]
    Client(#[from] client::Error),
}

/// The flags for the definition and the sample.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SetupArgs {
    /// Install the definition of the CronJob kind first
    #[arg(long)]
    pub install: bool,
    /// Create the sample CronJob first
    #[arg(long)]
    pub sample: bool,
    /// Print the definition of the CronJob kind as YAML, and exit
    #[arg(long)]
    pub print_crd: bool,
}

/// Returns the definition of the kind as YAML.
///
/// # Errors
///
/// An error if the definition cannot be written as YAML.
pub fn definition() -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(&CronJob::crd())
}

/// Installs what the flags ask for, and on an embedded server both the definition and the sample.
///
/// # Errors
///
/// The error of the server, and [`SetupError::NotInstalled`].
pub async fn prepare(
    args: SetupArgs,
    client: &Client,
    is_embedded: bool,
    console: Console,
) -> Result<(), SetupError> {
    if args.install || is_embedded {
        client.install(&CronJob::crd(), PATIENCE).await?;
        console.say("the definition cronjobs.batch.example.com is installed");
    } else {
        check(client).await?;
    }
    if args.sample || is_embedded {
        let key = sample(client).await?;
        console.say(format_args!("the sample CronJob {key} is there"));
    }
    Ok(())
}

/// Creates the sample if it does not exist.
///
/// # Errors
///
/// The error of the server.
pub async fn sample(client: &Client) -> Result<ObjectKey, SetupError> {
    let cron: CronJob = serde_saphyr::from_str(SAMPLE)?;
    match client.create(&cron).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(cron.key()),
    }
}

/// Checks that the server is reachable and serves the kind.
async fn check(client: &Client) -> Result<(), SetupError> {
    let everything = ListOptions::new();
    match client.live().list::<CronJob>(&everything).await {
        Ok(_) => Ok(()),
        Err(source) if source.is_kind_not_served() => Err(SetupError::NotInstalled {
            endpoint: client.client_config().endpoint(),
            source,
        }),
        Err(error) => Err(error.into()),
    }
}
