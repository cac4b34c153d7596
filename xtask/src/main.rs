//! The repository's chores: `cargo xtask tidy` checks its rules, `cargo xtask ci` runs what CI
//! runs, `cargo xtask schemas` writes the table of Kubernetes' own types.

mod flags;
mod ci;
mod tidy;
mod schemas;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::flags::{Chore, Flags};

#[expect(
    clippy::print_stderr,
    reason = "a command line tool reports on the terminal"
)]
fn main() -> ExitCode {
    let root = repository();
    let outcome = match Flags::parse().chore {
        Chore::Tidy { rules } => tidy::run(&root, &rules),
        Chore::Ci { steps } => ci::run(&root, &steps),
        Chore::Schemas { check } => schemas::run(&root, check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that holds the workspace: the parent of this package's folder.
fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
