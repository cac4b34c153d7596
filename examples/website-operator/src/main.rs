//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use steersman::cli::Config;
use steersman::{ClientConfig, shutdown_signal};
use website_operator::args::Args;
use website_operator::cluster::{self, Embedded};
use website_operator::narrator::Narrator;
use website_operator::setup::{self, Setup};
use website_operator::webhooks::{NAME, Webhooks};
use website_operator::{BoxError, Settings, controller, once};

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    args.operator.exit_code(run(&args).await)
}

async fn run(args: &Args) -> Result<(), BoxError> {
    args.operator.init_logging()?;
    if args.setup.print_crd {
        writeln!(std::io::stdout(), "{}", setup::definition()?)?;
        return Ok(());
    }
    let config = args.operator.config()?.version(env!("CARGO_PKG_VERSION"));
    // A server that runs for a moment needs no kubeconfig, and must not replace that of another one.
    let file = Some(args.write_kubeconfig.as_path()).filter(|_| !args.once);
    let (client_config, embedded) = cluster::find(&config, args.embedded, file).await?;
    let ended = operate(args, &config, client_config, embedded.as_ref()).await;
    // After a failure as well: otherwise the kubeconfig would stay and name a closed port.
    cluster::stop(embedded).await;
    ended
}

/// Runs the operator until it is stopped, or with --once until every website is ready.
async fn operate(
    args: &Args,
    config: &Config<Settings>,
    client_config: ClientConfig,
    embedded: Option<&Embedded>,
) -> Result<(), BoxError> {
    let webhooks = match embedded {
        Some(embedded) => Some(embedded.webhooks()?),
        None => Webhooks::of(&args.webhook_bind_address, &client_config),
    };
    let is_newest_only = args.setup.install_newest_version_only;
    let installs = args.setup.install || is_newest_only || embedded.is_some();
    if installs && webhooks.is_none() && !is_newest_only {
        setup::check_unconverted()?;
    }
    let mut builder = config.manager_over(client_config, NAME);
    if let Some(webhooks) = &webhooks {
        builder = builder.webhooks(webhooks.server(config));
    }
    if installs {
        builder = builder.crds(setup::definitions(webhooks.as_ref()));
    }
    let manager = builder.build()?;
    controller::declare(&manager)?;
    let has_sample = args.setup.sample || embedded.is_some();
    let setup = Setup {
        // Otherwise the leader installs the definition, when it leads.
        installs_now: installs && (has_sample || args.once),
        has_sample,
        must_be_served: args.once,
        webhooks,
        console: config.console(),
    };
    setup.run(manager.client(), config.namespaces()).await?;
    let narrator = tokio::spawn(Narrator::listen(&manager)?.narrate(config.console()));
    match args.once {
        true => once::run(&manager).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    narrator.await?;
    Ok(())
}
