//! `cargo steersman`: creates operators, runs them during development, and generates their manifests.
//!
//! # Reading order
//!
//! - `plural` has the ending of nouns, `error` the errors, and `command_line` the arguments.
//! - `names` checks names, and `shell_words` quotes words of printed commands.
//! - `edits` adds to sources, and its `program_edits` to the `main`; `api_kind` finds the kinds of an operator, and
//!   `version_edits` adds to a kind.
//! - `record` keeps what was made, and `scaffold` fills in the texts of the folder `templates` for a new operator.
//! - `screen` prints lines.
//! - `comparison` finds what differs between generated files and those of a folder.
//! - `project` finds, builds and describes an operator.
//! - `files` writes files, and `change_set` those of one command together.
//! - `kubeconfig` finds a cluster.
//! - `new`, `add`, `generate` and `deploy` are commands; `generate` writes or compares manifests.
//! - `dev` runs an operator with an API server: one on this machine (`dev::cluster`) or that of a kubeconfig
//!   (`dev::real`). `dev::session` runs the operator and decides when it is built anew, and `dev::lines` words what
//!   happens. `dev::view::model` is the state of the view, `dev::view::faults` decides when all is as before a fault,
//!   `dev::page_source` reads the debug page, `dev::view::render` draws, and `dev::terminal` has the terminal.
//! - `doctor` checks an operator in a cluster: `doctor::gather` reads the facts through `doctor::target`, and each
//!   other module turns the facts of one subject into findings.
//! - `explore` runs the tests that explore an operator.
//! - `upgrade` brings an operator to the present templates; `upgrade::merge_plan` decides about each file, from the
//!   texts in the record.

mod plural;
mod error;
mod command_line;
mod names;
mod shell_words;
mod edits;
mod api_kind;
mod record;
mod scaffold;
mod screen;
mod comparison;
mod project;
mod files;
mod change_set;
mod kubeconfig;
mod new;
mod add;
mod generate;
mod deploy;
mod dev;
mod doctor;
mod top;
mod explore;
mod upgrade;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use steersman_object::report;

use crate::command_line::{AddCommand, CargoArgs, SteersmanCommand as Command};
use crate::deploy::{ManifestAction, Objects, deploy};
use crate::error::Error;
use crate::screen::{complain, say};

/// The exit code that shells use for a program that ctrl-c ended.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let CargoArgs::Steersman(args) = CargoArgs::parse();
    match Box::pin(run(args.command)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {}", report(&error)));
            match error {
                Error::Interrupted(_) => ExitCode::from(INTERRUPTED),
                Error::Explored(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::New(args) => new::new(&args),
        Command::Add(AddCommand::Kind(args)) => add::kind(&args),
        Command::Add(AddCommand::Webhook(args)) => add::webhook(&args),
        Command::Add(AddCommand::Version(args)) => add::version(&args),
        Command::Add(AddCommand::Controller(args)) => add::controller(&args),
        Command::Dev(args) => dev::dev(&args).await,
        Command::Explore(args) => explore::explore(&args),
        Command::Generate(args) => generate::generate(&args),
        Command::Upgrade(args) => upgrade::upgrade(&args),
        Command::Install(args) => deploy(&args, ManifestAction::Apply, Objects::Definitions),
        Command::Uninstall(args) => deploy(&args, ManifestAction::Delete, Objects::Definitions),
        Command::Deploy(args) => deploy(&args, ManifestAction::Apply, Objects::All),
        Command::Undeploy(args) => deploy(&args, ManifestAction::Delete, Objects::All),
        Command::Image { image } => deploy::image(&image),
        Command::Doctor(args) => doctor::doctor(&args).await,
        Command::Top(args) => top::top(&args).await,
        Command::Completions { shell } => {
            let (mut command, mut script) = (CargoArgs::command(), Vec::new());
            clap_complete::generate(shell, &mut command, "cargo", &mut script);
            say(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
    }
}
