//! Benchmarks. `cargo xtask bench` runs them and updates their page of the book.
//!
//! Each measurement is a separate process of this program: either `steersman-bench`, with the
//! allocator of the program `steersman-apiserver`, or `steersman-bench-client`, with the system's
//! allocator, as in most operators. The figures go to standard output as JSON, one per line.
//!
//! # Reading order
//!
//! - `process` starts a process for a measurement, and `stops` ends one.
//! - `samples` has the measured objects, and `wire` the clients of servers.
//! - `report`, `figures` and `fit` make tables of measurements.
//! - `server` measures the embedded API server, each measurement in a process of its own.
//! - `world` has the servers to measure against.
//! - [`micro`] has the fixtures of the micro benchmarks.
//! - `cache` measures the cache beside kube-runtime's reflector, in processes of a second program with the system's
//!   allocator: `cache::storm` reconciles all objects once, beside kube-runtime's controller, `cache::latency` measures
//!   the time from a change to its reconcile, and `cache::outage` the time until a deletion during an outage is seen.
//! - `build` measures the compiler, beside the operator in the folder `kube-operator`.
//! - `shards` measures replicas that share the work, each in a process.
//! - `inside` measures what it costs to look at an operator, by its debug page and by traces.
//! - `explore` measures explorations, in this process and by the program `steersman-apiserver explore`.

mod process;
mod stops;
mod samples;
mod wire;
mod report;
mod figures;
mod fit;
mod server;
mod world;
pub mod micro;
mod cache;
mod build;
mod explore;
mod shards;
mod inside;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::process::{BenchResult, send};
use crate::report::Figure;
use crate::world::Worlds;

/// Measures Steersman, and prints the figures as JSON.
#[derive(Debug, Parser)]
struct BenchFlags {
    #[command(subcommand)]
    measurement: Measurement,
    /// Fewer objects and shorter runs, to test the benchmark itself.
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// The embedded API server: lists, watches, fan-out, start.
    Server {
        /// The program `steersman-apiserver`, to measure it, too.
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// The cache in comparison with kube-runtime's reflector: sync, processor time, memory, reads.
    Cache(Foreign),
    /// The work queue, and controllers from an event to a reconcile.
    Controller,
    /// The requests of a manager with many controllers.
    Load,
    /// An operator before and after its port from kube-runtime.
    Port,
    /// Webhooks: the time that they add to a write, and reviews per second.
    Webhooks,
    /// Kinds other than Pods.
    Kinds(Foreign),
    /// Memory by option of the cache.
    Options(Foreign),
    /// Sync, memory and reads for growing numbers of objects.
    Scaling(Foreign),
    /// Memory while objects change constantly.
    Steady {
        /// Ten minutes of churn instead of one.
        #[arg(long)]
        long: bool,
    },
    /// The compiler: the command, an example, a new operator beside one on kube-runtime.
    Build,
    /// Explorations: worlds per second, and what a world costs.
    Explore {
        /// The program `steersman-apiserver`, to measure its worlds, too.
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Replicas that share the work: memory, processor time and bytes of each, and the time of a hand-over.
    Shards,
    /// What it costs to look at an operator: its debug page, traces.
    Inside,
    /// The role of a process in a measurement of the server.
    #[command(hide = true)]
    Role {
        /// The role, as JSON.
        role: String,
    },
    /// The role of a process in a measurement of the cache.
    #[command(hide = true)]
    Client {
        /// The role, as JSON.
        role: String,
    },
}

#[derive(Debug, Args)]
struct Foreign {
    /// Measures against this server, in namespaces that are created and removed for it.
    #[arg(long, value_name = "KUBECONFIG")]
    against: Option<PathBuf>,
    /// Ends, as after an interrupt, when standard input is closed because the parent process has ended.
    #[arg(long, hide = true)]
    until_closed: bool,
}

/// Runs the program.
#[expect(clippy::print_stderr, reason = "errors go to the terminal")]
#[must_use]
pub fn run() -> ExitCode {
    let BenchFlags { measurement, quick } = BenchFlags::parse();
    let done = match measurement {
        Measurement::Server { program } => {
            print_figures(server::measure(quick, program.as_deref()))
        }
        Measurement::Cache(asked) => print_figures(within(asked, quick, cache::measure)),
        Measurement::Controller => print_figures(cache::controller::measure(quick)),
        Measurement::Load => print_figures(cache::load::measure(quick)),
        Measurement::Port => print_figures(cache::port::measure(quick)),
        Measurement::Webhooks => print_figures(cache::admission::measure_all(quick)),
        Measurement::Steady { long } => print_figures(cache::steady::measure(quick, long)),
        Measurement::Kinds(asked) => print_figures(within(asked, quick, cache::kinds::measure)),
        Measurement::Options(asked) => print_figures(within(asked, quick, cache::options::measure)),
        Measurement::Scaling(asked) => print_figures(within(asked, quick, cache::scaling::measure)),
        Measurement::Build => print_figures(build::measure(quick)),
        Measurement::Explore { program } => {
            print_figures(explore::measure(quick, program.as_deref()))
        }
        Measurement::Shards => print_figures(shards::measure(quick)),
        Measurement::Inside => print_figures(inside::measure(quick)),
        Measurement::Role { role } => server::role::play(&role),
        Measurement::Client { role } => cache::role::play(&role),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Measures in worlds, and removes their objects from an external server in any case.
async fn within(
    asked: Foreign,
    quick: bool,
    measure: impl AsyncFnOnce(&mut Worlds, bool) -> BenchResult<Vec<Figure>>,
) -> BenchResult<Vec<Figure>> {
    let parent = asked.until_closed.then(std::io::stdin);
    let mut stops = stops::listen(parent)?;
    let worlds = Worlds::of(asked.against.as_deref()).await?;
    let measure = async |worlds: &mut Worlds| measure(worlds, quick).await;
    worlds.lend(&mut stops, measure).await
}

fn print_figures(measuring: impl Future<Output = BenchResult<Vec<Figure>>>) -> BenchResult<()> {
    for figure in tokio::runtime::Runtime::new()?.block_on(measuring)? {
        send(&figure)?;
    }
    Ok(())
}
