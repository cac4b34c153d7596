//! Helpers that run commands in the folder of an operator.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use toml_edit::DocumentMut;

/// Returns the folder of this workspace.
pub(crate) fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    folder.canonicalize().unwrap()
}

/// Returns the build folder of this test. An operator that is built there reuses the compiled dependencies.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Gives an operator the profile of the workspace. Cargo builds a dependency once for two crates only if its profile, its
/// features and its version are the same; `new` has copied the versions. The program gets the features that its tests need,
/// too: otherwise every dependency would be compiled a second time for it.
pub(crate) fn share_dependencies(folder: &Path) {
    let own = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&own).unwrap();
    let mut manifest: DocumentMut = text.parse().unwrap();
    manifest["dependencies"]["steersman-harness"] =
        manifest["dev-dependencies"]["steersman-harness"].clone();
    let features = manifest["dependencies"]["tokio"]["features"].as_array_mut();
    features.unwrap().push("test-util");
    manifest.remove("profile");
    let mut text = manifest.to_string();
    let of_workspace = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let mut is_profile = false;
    for line in of_workspace.lines() {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.dev");
        }
        if is_profile {
            text += &format!("{line}\n");
        }
    }
    std::fs::write(own, text).unwrap();
}

/// Returns a `cargo steersman` command in a folder.
pub(crate) fn steersman(folder: &Path) -> Command {
    let mut command = command_in(folder, env!("CARGO_BIN_EXE_cargo-steersman"));
    command.arg("steersman");
    command
}

/// Runs cargo in a folder, and returns its standard output.
pub(crate) fn cargo(folder: &Path, words: &[&str]) -> String {
    succeeds(command_in(folder, env!("CARGO")).args(words))
}

/// Runs the tests of a crate, compiled by clippy with warnings as errors. `cargo clippy` would use `cargo check`, which
/// compiles every dependency a second time.
pub(crate) fn test_with_clippy(folder: &Path) {
    let mut command = command_in(folder, env!("CARGO"));
    command.args(["test", "--offline", "--quiet"]);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    let separator = "__CLIPPY_HACKERY__";
    let deny = ["-D", "warnings", ""].join(separator);
    succeeds(command.env("CLIPPY_ARGS", deny));
}

/// Returns a command in the folder of an operator, which cargo builds in the folder of this workspace. The operator's
/// programs are in a separate folder, because a program of the workspace may have the same name.
fn command_in(folder: &Path, program: &str) -> Command {
    let mut command = without_package(program);
    command.current_dir(folder);
    command.env("CARGO_BUILD_BUILD_DIR", target());
    command.env("CARGO_TARGET_DIR", folder.join("target"));
    command
}

/// Returns a command without the variables of the package that cargo tests now. If such a variable changes, build
/// scripts, such as that of ring, run again, and everything that depends on them is compiled again.
fn without_package(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}:\n{out}\n{err}");
    out
}

/// Runs a command that must fail, and returns its standard error.
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

/// Returns the path of the example's program, which must have been built.
pub(crate) fn example_program() -> PathBuf {
    let program = target().join("debug/greeter");
    if !program.exists() {
        let mut command = without_package(env!("CARGO"));
        command.args(["build", "--locked", "--quiet", "--package", "greeter"]);
        let command = command.current_dir(workspace());
        succeeds(command.env("CARGO_TARGET_DIR", target()));
    }
    program
}
