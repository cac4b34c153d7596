//! Makes the packages of the API server and of the command `cargo steersman`, offline and reproducibly.
//!
//! The bytes depend on the sources, the compiler and the time of the last commit (or `SOURCE_DATE_EPOCH`): files have a
//! fixed order, owner and mode, and the program holds no path of this machine.

mod platform;
mod file;
mod hash;
mod elf;
mod tar;
mod zip;
mod build;
mod envtest;
mod wheel;
mod image;
mod command;

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;

use self::file::{PackedFile, Packing};
use self::platform::Platform;
use crate::files;
use crate::flags::Dist;
use crate::say;

const PACKAGE: &str = "crates/server/steersman-apiserver";
const PROGRAM: &str = "steersman-apiserver";

/// Builds the program for each target and writes the packages. Errors name what is missing, and where to get it.
pub(crate) fn run(root: &Path, asked: &Dist) -> Result<(), String> {
    let platforms = platforms(asked)?;
    envtest::check_version(&asked.version)?;
    envtest::check_address(&asked.base_url)?;
    let packing = Packing {
        time: time(root)?,
        level: if asked.quick {
            Compression::fast()
        } else {
            Compression::best()
        },
    };
    let out = root.join(&asked.out);
    let command_for = |platform: &Platform| match &asked.command {
        Some(path) => Ok(path.clone()),
        None => build::build(root, platform, command::COMMAND),
    };
    let this_machine = Platform::of_this_machine().filter(|own| platforms.contains(own));
    let runnable = this_machine.as_ref().map(command_for).transpose()?;
    let completions = command::completions(root, runnable.as_deref())?;
    let mut archives = Vec::new();
    for platform in &platforms {
        let program = match &asked.program {
            Some(path) => files::bytes(path)?,
            None => files::bytes(&build::build(root, platform, PROGRAM)?)?,
        };
        let name = format!("{}/{PROGRAM}", platform.name);
        write(&out, &PackedFile::program(&name, program.clone()))?;
        let archive = envtest::archive(&asked.version, platform, &program, &packing)?;
        write(&out, &archive)?;
        archives.push(archive);
        write(&out, &wheel::wheel(root, platform, &program, &packing)?)?;
        if platform.is_linux() {
            image::write(root, &out, platform, program)?;
        }
        let command = command_for(platform)?;
        for file in command::packages(root, platform, &command, &completions, &packing)? {
            write(&out, &file)?;
        }
    }
    let index = envtest::index(&asked.version, &asked.base_url, &archives);
    write(&out, &index)
}

/// Builds the packed program for this machine; `None` if there are no packages for this machine.
pub(crate) fn program(root: &Path) -> Result<Option<PathBuf>, String> {
    let built = Platform::of_this_machine().map(|platform| build::build(root, &platform, PROGRAM));
    built.transpose()
}

fn platforms(asked: &Dist) -> Result<Vec<Platform>, String> {
    let given = [("--program", &asked.program), ("--command", &asked.command)];
    if let Some((flag, _)) = given.iter().find(|(_, path)| path.is_some())
        && asked.targets.len() > 1
    {
        return Err(format!(
            "{flag} is a program of one target: name only that target"
        ));
    }
    let targets = asked.targets.iter();
    targets.map(|target| Platform::of(target)).collect()
}

/// Returns the time that all packed files get, in seconds since 1970.
fn time(root: &Path) -> Result<i64, String> {
    const VARIABLE: &str = "SOURCE_DATE_EPOCH";
    let remedy = "set SOURCE_DATE_EPOCH to the time of the sources in seconds since 1970";
    let text = match std::env::var(VARIABLE) {
        Ok(text) => text,
        Err(_) => {
            let output = Command::new("git")
                .args(["log", "-1", "--format=%ct"])
                .current_dir(root)
                .output()
                .map_err(|error| format!("git could not be started: {error}; {remedy}"))?;
            if !output.status.success() {
                let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(format!(
                    "git does not know the last commit: {problem}; {remedy}"
                ));
            }
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
    };
    let text = text.trim();
    let time = text.parse::<i64>().ok().filter(|time| *time >= 0);
    time.ok_or_else(|| format!("the time of the sources reads '{text}'; {remedy}"))
}

/// Writes a file, makes its folders, and prints its path and size.
fn write(folder: &Path, file: &PackedFile) -> Result<(), String> {
    let path = folder.join(&file.name);
    replace(&path, file).map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!("{} ({} bytes)", path.display(), file.bytes.len()));
    Ok(())
}

/// Writes a file beside its path and renames it, so that a running program of that path is replaced, too.
fn replace(path: &Path, file: &PackedFile) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_added_extension("new");
    fs::write(&beside, &file.bytes)?;
    #[cfg(unix)]
    fs::set_permissions(&beside, PermissionsExt::from_mode(file.mode))?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests;
