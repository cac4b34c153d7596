//! Driver: the program called `kubectl`: runs the kubectl that is installed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::problem::{Outcome, ProgramProblem};

/// The environment variable with the paths of the copies of this program that ran before this one, so that copies on
/// the PATH do not call each other without end.
const TRIED: &str = "STEERSMAN_KUBECTL_TRIED";

/// Runs the first kubectl on the PATH that is not this program, with the same arguments. On Unix it replaces this
/// process.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Outcome<ExitCode> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tried = std::env::var_os(TRIED).unwrap_or_default();
    let mut tried: BTreeSet<PathBuf> = std::env::split_paths(&tried).collect();
    tried.extend(std::env::current_exe().and_then(|own| own.canonicalize()));
    let candidates = std::env::split_paths(&path)
        .map(|folder| folder.join(format!("kubectl{}", std::env::consts::EXE_SUFFIX)));
    let found = candidates.filter(|candidate| is_program(candidate));
    let mut others = found.filter(|candidate| !tried.iter().any(|one| is_same(one, candidate)));
    let other = others.next().ok_or(ProgramProblem::NoKubectl)?;
    let mut command = Command::new(&other);
    command.args(arguments);
    // Joining fails if the folder of a copy has the separator of PATH in its name. No PATH can name such a folder, so
    // the copy is not called again.
    if let Ok(tried) = std::env::join_paths(&tried) {
        command.env(TRIED, tried);
    }
    replace(command, other)
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Returns whether two paths lead to the same file. Hard links to a file are the same file.
#[cfg(unix)]
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => one.dev() == other.dev() && one.ino() == other.ino(),
        _ => one == other,
    }
}

#[cfg(not(unix))]
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok() == other.canonicalize().ok()
}

#[cfg(unix)]
fn replace(mut command: Command, path: PathBuf) -> Outcome<ExitCode> {
    let source = std::os::unix::process::CommandExt::exec(&mut command);
    Err(ProgramProblem::Kubectl { path, source })
}

#[cfg(not(unix))]
fn replace(mut command: Command, path: PathBuf) -> Outcome<ExitCode> {
    match command.status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(ExitCode::from(code.unwrap_or(1)))
        }
        Err(source) => Err(ProgramProblem::Kubectl { path, source }),
    }
}
