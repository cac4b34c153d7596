//! `cargo steersman`: makes operators, runs them while they are written, and generates their manifests.
//!
//! Modules, words first:
//!
//! - `error` has the errors, and `command_line` the arguments.
//! - `names` checks names, and `scaffold` makes the files of a new operator.
//! - `files` writes them.
//! - `project` finds, builds and describes an operator.
//! - `new` and `dev` are the commands.

mod error;
mod command_line;
mod names;
mod scaffold;
mod files;
mod project;
mod new;
mod dev;

use std::process::ExitCode;

use clap::Parser as _;
use steersman_object::report;

use crate::command_line::{CargoArgs, SteersmanCommand};
use crate::error::Error;

#[tokio::main]
async fn main() -> ExitCode {
    let CargoArgs::Steersman(args) = CargoArgs::parse();
    match run(args.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", report(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: SteersmanCommand) -> Result<(), Error> {
    match command {
        SteersmanCommand::New(args) => new::new(&args),
        SteersmanCommand::Dev(args) => dev::dev(&args).await,
    }
}
