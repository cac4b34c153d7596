//! Commands in the folder of an operator.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the folder of this workspace.
pub(crate) fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().unwrap()
}

/// Returns the folder in which this test was built, so that an operator needs only what it has of its own.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Returns a command of `cargo steersman` in a folder.
pub(crate) fn steersman(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-steersman"));
    command.arg("steersman").current_dir(folder);
    command.env("CARGO_TARGET_DIR", target());
    command
}

/// Runs cargo in a folder, and returns what it prints to standard output.
pub(crate) fn cargo(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).current_dir(folder);
    command.env("CARGO_TARGET_DIR", target());
    succeeds(&mut command)
}

/// Runs a command, which must succeed, and returns what it prints to standard output.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}:\n{out}\n{err}");
    out
}

/// Runs a command, which must fail, and returns what it prints to standard error.
pub(crate) fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    assert!(!output.status.success(), "{command:?}:\n{out}\n{err}");
    err
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
