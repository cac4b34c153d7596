//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::process::ExitCode;

use clap::Parser as _;
use steersman::cli::Config;
use steersman::{Connection, shutdown_signal};
use website_operator::args::Args;
use website_operator::narrator::{Narrator, complain, say};
use website_operator::{BoxError, Settings, cluster, controller, once, setup};

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
    controller::declare(&manager)?;
    setup::prepare(args, manager.client(), config.namespaces(), is_embedded).await?;
    let narrator = tokio::spawn(Narrator::listen(&manager)?.narrate());
    match args.once {
        true => once::run(&manager).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    narrator.await?;
    Ok(())
}
