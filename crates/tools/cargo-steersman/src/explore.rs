//! Driver: `cargo steersman explore`.

use std::process::{Command, Stdio};

use crate::api_kind;
use crate::command_line::ExploreArgs;
use crate::error::Error;
use crate::project::{EXPLORATIONS, Project, cargo};

/// Runs the explorations of the operator in the current folder: those of all kinds, or that of one kind.
///
/// Fails with the exit code of `cargo test`.
pub(crate) fn explore(args: &ExploreArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let (filter, file) = match &args.kind {
        None => ("explore::".to_owned(), EXPLORATIONS.to_owned()),
        Some(name) => {
            let module = api_kind::find(&project.folder, name)?.module;
            let file = format!("tests/it/explore/{module}.rs");
            (format!("explore::{module}::"), file)
        }
    };
    // Without a test the run would succeed.
    if !project.folder.join(&file).is_file() {
        return Err(Error::NoExploration(file.into()));
    }
    let mut command = Command::new(cargo());
    command.current_dir(&project.folder).arg("test");
    command.args(["--package", &project.name, "--test", "it"]);
    command.args(args.offline.then_some("--offline"));
    command.args(args.release.then_some("--release"));
    // The tests print their summaries.
    command.args([&filter, "--", "--nocapture"]);
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(Error::start("cargo test"))?;
    match status.success() {
        true => Ok(()),
        // A signal has no exit code.
        false => Err(Error::Explored(status.code().unwrap_or(1))),
    }
}
