//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cronjob_operator::cluster::{self, Cluster};
use cronjob_operator::narrator::Narrator;
use cronjob_operator::{BoxError, Settings, controller, once, setup};
use steersman::cli::{Console, OperatorArgs};
use steersman::shutdown_signal;
use tokio::runtime::{Builder, Runtime};

/// Starts Jobs by a schedule.
///
/// Uses the cluster that --kubeconfig, KUBECONFIG, the Pod's service account or ~/.kube/config names. With --embedded
/// it starts an API server in this process, with a sample CronJob.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Exit once each CronJob has completed some Jobs; with --embedded, minutes pass in milliseconds
    #[arg(long)]
    once: bool,
    /// The number of Jobs that --once waits for, per CronJob
    #[arg(long, default_value_t = 4)]
    completed: usize,
    /// Start an API server in this process, even if a cluster is configured
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    embedded: bool,
    #[command(flatten)]
    setup: setup::SetupArgs,
    /// The file for the kubeconfig of the embedded API server, if it keeps running
    #[arg(long, default_value = "cronjob-operator.kubeconfig")]
    write_kubeconfig: PathBuf,
    #[command(flatten)]
    operator: OperatorArgs<Settings>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = runtime(args.once && args.embedded)
        .map_err(BoxError::from)
        .and_then(|runtime| runtime.block_on(run(&args)));
    args.operator.exit_code(ended)
}

/// Makes the runtime. On a paused clock timers fire as soon as no task has work, so that a minute of the schedule takes
/// no time; that works only without a network.
fn runtime(is_paused: bool) -> std::io::Result<Runtime> {
    if is_paused {
        return Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
    }
    Builder::new_multi_thread().enable_all().build()
}

async fn run(args: &Args) -> Result<(), BoxError> {
    args.operator.init_logging()?;
    if args.setup.print_crd {
        writeln!(std::io::stdout(), "{}", setup::definition()?)?;
        return Ok(());
    }
    let config = args.operator.config()?.version(env!("CARGO_PKG_VERSION"));
    let console = config.console();
    let cluster = if args.embedded {
        let file = Some(args.write_kubeconfig.as_path()).filter(|_| !args.once);
        cluster::embedded(file, console).await?
    } else {
        cluster::configured(&config).await?
    };
    let builder = config.manager_over(cluster.client_config.clone(), "cronjob-operator");
    let ended = operate(args, builder, &cluster, console).await;
    if let Some(embedded) = cluster.embedded {
        // After a failure as well: otherwise the kubeconfig would stay and name a closed port.
        embedded.stop().await;
    }
    ended
}

/// Runs the operator until it is stopped, or with --once until Jobs have completed.
async fn operate(
    args: &Args,
    builder: steersman::manager::ManagerBuilder,
    cluster: &Cluster,
    console: Console,
) -> Result<(), BoxError> {
    let clock = cluster.clock();
    let of_manager = Arc::clone(&clock);
    let manager = builder.clock(move || of_manager()).build()?;
    setup::prepare(args.setup, manager.client(), args.embedded, console).await?;
    controller::declare(&manager)?;
    let narrator = tokio::spawn(Narrator::listen(&manager, &clock)?.narrate(console));
    match args.once {
        true => once::run(&manager, args.completed).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    narrator.await?;
    Ok(())
}
