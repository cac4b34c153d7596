//! The chores of the repository, one subcommand each. `flags.rs` and `cargo xtask help` describe them.

mod flags;
mod files;
mod cargo;
mod ci;
mod tidy;
mod schemas;
mod fuzz;
mod one_test;
mod conformance;
mod corpus;
mod seeds;
mod dist;
mod pictures;
mod bench;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use crate::flags::Chore;

#[expect(clippy::print_stderr, reason = "errors go to the terminal")]
fn main() -> ExitCode {
    let root = repository();
    let outcome = match Chore::parse() {
        Chore::Tidy { rules } => tidy::run(&root, &rules),
        Chore::Ci { steps } => ci::run(&root, &steps),
        Chore::Conformance(asked) => conformance::run(&root, &asked),
        Chore::Corpus(asked) => corpus::run(&root, &asked),
        Chore::Schemas { check, go } => schemas::run(&root, check, go.as_deref()),
        Chore::Bench(asked) => bench::run(&root, &asked),
        Chore::Dist(asked) => dist::run(&root, &asked),
        Chore::Pictures => pictures::run(&root),
        Chore::Seeds(asked) => seeds::run(&root, &asked),
        Chore::Fuzz(asked) => fuzz::run(&root, &asked),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the workspace, which is the parent of this package's folder.
fn repository() -> PathBuf {
    // Set by `cargo run`. The folder of the compilation can be that of another checkout, if both share a target folder.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().unwrap_or(&package).to_path_buf()
}

#[expect(clippy::print_stdout, reason = "chores print results and progress")]
fn say(text: &str) {
    println!("{text}");
}
