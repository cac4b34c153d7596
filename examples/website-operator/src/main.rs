//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use steersman::cli::{Config, OperatorArgs};
use steersman::{Connection, shutdown_signal};
use website_operator::narrator::{Narrator, complain, say};
use website_operator::{BoxError, Settings, cluster, controller, once, setup};

/// Serves websites from ConfigMaps.
///
/// Uses the cluster that --kubeconfig, KUBECONFIG, the Pod's service account or ~/.kube/config names. If none is
/// configured, or with --embedded, it starts an API server in this process, with a sample website, for use with
/// kubectl.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Exit once every website is ready, or print what is missing
    #[arg(long)]
    once: bool,
    /// Start an API server in this process, even if a cluster is configured
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    embedded: bool,
    #[command(flatten)]
    setup: setup::SetupArgs,
    /// The file for the kubeconfig of the embedded API server
    #[arg(long, default_value = "website-operator.kubeconfig")]
    write_kubeconfig: PathBuf,
    #[command(flatten)]
    operator: OperatorArgs<Settings>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = run(Args::parse()).await;
    ended.map_or_else(|error| complain(&*error), |()| ExitCode::SUCCESS)
}

async fn run(args: Args) -> Result<(), BoxError> {
    args.operator.init_logging()?;
    if args.setup.print_crd {
        say(setup::definition()?);
        return Ok(());
    }
    let config = args.operator.config()?.version(env!("CARGO_PKG_VERSION"));
    // A server that runs for a moment needs no kubeconfig, and must not replace that of another one.
    let file = Some(args.write_kubeconfig.as_path()).filter(|_| !args.once);
    let (connection, embedded) = cluster::find(&config, args.embedded, file).await?;
    let ended = operate(&args, &config, connection, embedded.is_some()).await;
    // After a failure as well: otherwise the kubeconfig would stay and name a closed port.
    cluster::stop(embedded).await;
    ended
}

/// Runs the operator until it is stopped, or with --once until every website is ready.
async fn operate(
    args: &Args,
    config: &Config<Settings>,
    connection: Connection,
    is_embedded: bool,
) -> Result<(), BoxError> {
    let manager = config
        .manager_over(connection, "website-operator")
        .build()?;
    let namespaces = config.namespaces();
    setup::prepare(&args.setup, manager.client(), namespaces, is_embedded).await?;
    controller::declare(&manager)?;
    let narrator = tokio::spawn(Narrator::listen(&manager)?.narrate());
    match args.once {
        true => once::run(&manager).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    narrator.await?;
    Ok(())
}
