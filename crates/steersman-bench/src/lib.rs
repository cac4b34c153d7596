//! Benchmarks: `cargo xtask bench` runs them and keeps their page of the book.
//!
//! Each measurement is a process of its own, which this program starts from itself: either
//! `steersman-bench`, whose allocator is that of the program `steersman-apiserver`, or
//! `steersman-bench-client`, which is the same with the system's allocator, as most operators have it.

mod process;
mod pods;
mod wire;
mod report;
mod server;
mod cache;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::Outcome;
use crate::report::{Row, table};

/// The command line.
#[derive(Debug, Parser)]
struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The embedded API server: lists, watches, fan-out, start.
    Server {
        /// Fewer objects and shorter runs: to see whether it works, not how fast it is.
        #[arg(long)]
        quick: bool,
    },
    /// The cache beside kube-runtime's reflector: sync, processor time, memory, reads.
    Cache {
        /// Fewer objects and shorter runs: to see whether it works, not how fast it is.
        #[arg(long)]
        quick: bool,
    },
    /// One side of a measurement of the server, in the process that was started for it.
    #[command(hide = true, subcommand)]
    Role(server::role::Role),
    /// One side of a measurement of the cache, in the process that was started for it.
    #[command(hide = true, subcommand)]
    Client(cache::role::Role),
}

/// What the programs do.
#[expect(
    clippy::print_stderr,
    reason = "a command line tool reports on the terminal"
)]
#[must_use]
pub fn run() -> ExitCode {
    let done = match Flags::parse().what {
        What::Server { quick } => tabulate(server::measure(quick)),
        What::Cache { quick } => tabulate(cache::measure(quick)),
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

/// Measures, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn tabulate(measuring: impl Future<Output = Outcome<Vec<Row>>>) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    println!("{}", table(&runtime.block_on(measuring)?));
    Ok(())
}
