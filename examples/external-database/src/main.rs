//! Runs the operator on a cluster, or a demonstration on an embedded API server.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use example_program::BoxError;
use example_program::setup::print_yaml;
use external_database::database::Database;
use external_database::service::{DatabaseClient, DatabaseService};
use external_database::{controller, demo};
use steersman::cli::Args;
use steersman::kube_core::CustomResourceExt as _;
use steersman::shutdown_signal;

/// Keeps the databases of an HTTP service.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    /// Show what the operator does on an API server in this process, and exit
    #[arg(long)]
    once: bool,
    /// Print the definition of the Database kind as YAML, and exit
    #[arg(long)]
    print_crd: bool,
    /// The address of the service; by default a new one in this process
    #[arg(long)]
    service: Option<SocketAddr>,
    /// The interval at which the operator looks at the service, in seconds
    #[arg(long, default_value_t = 30)]
    poll_every: u64,
    #[command(flatten)]
    operator: Args,
}

#[tokio::main]
async fn main() -> ExitCode {
    let program = Program::parse();
    program.operator.exit_code(run(&program).await)
}

async fn run(program: &Program) -> Result<(), BoxError> {
    if program.once {
        let console = program.operator.config()?.console();
        return demo::run(|step| console.say(step)).await;
    }
    if program.print_crd {
        return print_yaml(&Database::crd());
    }
    program.operator.init_logging()?;
    let config = program.operator.config()?;
    let config = config.version(env!("CARGO_PKG_VERSION"));
    let service = match program.service {
        Some(address) => address,
        None => DatabaseService::new().serve().await?,
    };
    let manager = config
        .manager("external-database")
        .await?
        .cache(controller::cache(config.cache_options()))
        .build()?;
    let poll_every = Duration::from_secs(program.poll_every);
    controller::declare(&manager, DatabaseClient::http(service), poll_every)?;
    Ok(manager.start(shutdown_signal()).await?)
}
