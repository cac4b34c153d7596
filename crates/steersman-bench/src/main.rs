//! Benchmarks: `cargo run --release -p steersman-bench -- server` runs them and prints a table.
//!
//! Each measurement is a process of its own, which this program starts from itself.

mod process;
mod pods;
mod wire;
mod report;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::server::role::Role;

/// As in the program `steersman-apiserver`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// One side of a measurement, in the process that was started for it.
    #[command(hide = true, subcommand)]
    Role(Role),
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool reports on the terminal"
)]
fn main() -> ExitCode {
    let done = match Flags::parse().what {
        What::Server { quick } => server::run(quick),
        What::Role(role) => role.play(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
