//! Packs the command `cargo steersman`, in an archive that `cargo binstall` unpacks by the metadata of the crate.

use std::path::Path;
use std::process::Command;

use super::file::{PackedFile, Packing};
use super::hash::{SHA256, hex};
use super::platform::Platform;
use super::tar;
use crate::{cargo, files};

pub(super) const COMMAND: &str = "cargo-steersman";

/// The shells that the archive has completions for.
const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// The name of a shell, and the completions for it.
pub(super) type Completions = (&'static str, Vec<u8>);

/// Returns the completions of all shells, which are the same on all platforms. `program` is the command for this
/// machine; without it cargo builds the command, because a program of another platform cannot run here.
pub(super) fn completions(root: &Path, program: Option<&Path>) -> Result<Vec<Completions>, String> {
    SHELLS
        .into_iter()
        .map(|shell| printed(root, program, shell).map(|text| (shell, text)))
        .collect()
}

/// Returns the archive with the program, the licence and the completions of shells, and the file with its SHA-256.
pub(super) fn packages(
    root: &Path,
    platform: &Platform,
    program: &Path,
    completions: &[Completions],
    packing: &Packing,
) -> Result<[PackedFile; 2], String> {
    let name = format!(
        "{COMMAND}-{}-v{}",
        platform.target,
        env!("CARGO_PKG_VERSION")
    );
    let licence = files::bytes(&root.join("LICENSE"))?;
    let mut files = vec![
        PackedFile::program(&format!("{name}/{COMMAND}"), files::bytes(program)?),
        PackedFile::data(&format!("{name}/LICENSE"), licence),
    ];
    for (shell, text) in completions {
        let path = format!("{name}/completions/{COMMAND}.{shell}");
        files.push(PackedFile::data(&path, text.as_slice()));
    }
    let archive = format!("{name}.tar.gz");
    let bytes = tar::tar_gz(&files, packing)?;
    // The form of `sha256sum`, so that `sha256sum --check` reads it.
    let line = format!("{}  {archive}\n", hex(&SHA256, &bytes));
    let hash = PackedFile::data(&format!("{archive}.sha256"), line);
    Ok([PackedFile::data(&archive, bytes), hash])
}

/// Returns the completions of a shell, as the command prints them.
fn printed(root: &Path, program: Option<&Path>, shell: &str) -> Result<Vec<u8>, String> {
    let mut command = if let Some(program) = program {
        // A relative path without a slash would be looked for on the PATH.
        let program = std::path::absolute(program);
        Command::new(program.map_err(|error| format!("--command: {error}"))?)
    } else {
        let mut command = cargo::command(root);
        command.args([
            "run", "--locked", "--offline", "--quiet", "--package", COMMAND, "--",
        ]);
        command
    };
    command.args(["steersman", "completions", shell]);
    let output = command.output();
    let output = output.map_err(|error| format!("{command:?} could not be started: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        why.trim()
    ))
}
