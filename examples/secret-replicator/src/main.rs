//! Runs the replicator on a cluster, or a demonstration on an embedded API server.

use std::process::ExitCode;

use clap::Parser;
use example_program::BoxError;
use secret_replicator::{controller, demo};
use steersman::cli::Args;
use steersman::shutdown_signal;
use steersman_testenv::apiserver::ApiServer;
use tokio::runtime::Builder;

/// Copies Secrets into other namespaces.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    /// Show what the operator does on an API server in this process, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    operator: Args,
}

fn main() -> ExitCode {
    let program = Program::parse();
    program.operator.exit_code(run(&program))
}

fn run(program: &Program) -> Result<(), BoxError> {
    if program.once {
        // Without a network the clock can be paused, and waits take no time.
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build()?;
        let server = ApiServer::new();
        let console = program.operator.config()?.console();
        return runtime.block_on(demo::run(|step| console.say(step), &server));
    }
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(operate(&program.operator))
}

/// Runs the operator on the configured cluster until it is stopped.
async fn operate(operator: &Args) -> Result<(), BoxError> {
    operator.init_logging()?;
    let config = operator.config()?.version(env!("CARGO_PKG_VERSION"));
    let manager = config
        .manager("secret-replicator")
        .await?
        .cache(controller::cache(config.cache_options()))
        .build()?;
    controller::declare(&manager)?;
    Ok(manager.start(shutdown_signal()).await?)
}
