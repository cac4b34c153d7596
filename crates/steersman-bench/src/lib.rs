//! Benchmarks: `cargo xtask bench` runs them and keeps their page of the book.
//!
//! Each measurement is a process of its own, which this program starts from itself: either
//! `steersman-bench`, whose allocator is that of the program `steersman-apiserver`, or
//! `steersman-bench-client`, which is the same with the system's allocator, as most operators have it.
//! What was measured goes to the standard output, a figure a line, as JSON.

mod process;
mod stops;
mod samples;
mod wire;
mod report;
mod fit;
mod server;
mod world;
mod cache;
pub mod micro;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::process::{Outcome, say};
use crate::report::Figure;
use crate::world::Worlds;

/// The command line.
#[derive(Debug, Parser)]
struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The embedded API server: lists, watches, fan-out, start.
    Server(Asked),
    /// The cache beside kube-runtime's reflector: sync, processor time, memory, reads.
    Cache(Foreign),
    /// The work queue, and controllers from an event to a reconcile.
    Controller(Asked),
    /// What a server is asked by a manager with many controllers.
    Load(Asked),
    /// Kinds other than Pods.
    Kinds(Foreign),
    /// Memory by option of the cache.
    Options(Foreign),
    /// Sync, memory and reads from few objects to many.
    Scaling(Foreign),
    /// Memory while objects change all the time.
    Steady {
        #[command(flatten)]
        asked: Asked,
        /// Ten minutes of churn instead of one.
        #[arg(long)]
        long: bool,
    },
    /// One side of a measurement of the server, in the process that was started for it.
    #[command(hide = true, subcommand)]
    Role(server::role::Role),
    /// One side of a measurement of the cache, in the process that was started for it.
    #[command(hide = true, subcommand)]
    Client(cache::role::Role),
}

#[derive(Debug, Args)]
struct Asked {
    /// Fewer objects and shorter runs: to see whether it works, not how fast it is.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct Foreign {
    #[command(flatten)]
    asked: Asked,
    /// Measures against this server, in namespaces that are made for it and removed after.
    #[arg(long, value_name = "KUBECONFIG")]
    against: Option<PathBuf>,
    /// Ends, as after an interrupt, when the standard input is closed: the process that started this
    /// one is gone then.
    #[arg(long, hide = true)]
    until_closed: bool,
}

/// What the programs do.
#[expect(
    clippy::print_stderr,
    reason = "a command line tool reports on the terminal"
)]
#[must_use]
pub fn run() -> ExitCode {
    let done = match Flags::parse().what {
        What::Server(asked) => tell(server::measure(asked.quick)),
        What::Cache(asked) => tell(within(asked, async |worlds, quick| {
            cache::measure(worlds, quick).await
        })),
        What::Controller(asked) => tell(cache::controller::measure(asked.quick)),
        What::Load(asked) => tell(cache::load::measure(asked.quick)),
        What::Steady { asked, long } => tell(cache::steady::measure(asked.quick, long)),
        What::Kinds(asked) => tell(within(asked, async |worlds, quick| {
            cache::kinds::measure(worlds, quick).await
        })),
        What::Options(asked) => tell(within(asked, async |worlds, quick| {
            cache::options::measure(worlds, quick).await
        })),
        What::Scaling(asked) => tell(within(asked, async |worlds, quick| {
            cache::scaling::measure(worlds, quick).await
        })),
        What::Role(role) => role.play(),
        What::Client(role) => role.play(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Measures in worlds, and removes what they leave on a server of others, however it ends.
async fn within(
    asked: Foreign,
    measure: impl AsyncFnOnce(&mut Worlds, bool) -> Outcome<Vec<Figure>>,
) -> Outcome<Vec<Figure>> {
    let parent = asked.until_closed.then(std::io::stdin);
    let mut stops = stops::listen(parent)?;
    let worlds = Worlds::of(asked.against.as_deref()).await?;
    let quick = asked.asked.quick;
    let measure = async |worlds: &mut Worlds| measure(worlds, quick).await;
    worlds.lend(&mut stops, measure).await
}

/// Measures, and prints the figures.
fn tell(measuring: impl Future<Output = Outcome<Vec<Figure>>>) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    for figure in runtime.block_on(measuring)? {
        say(&figure)?;
    }
    Ok(())
}
