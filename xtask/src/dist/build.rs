//! Builds the program for a platform.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;

use super::elf;
use super::platform::Platform;
use crate::{cargo, files};

const PROFILE: &str = "dist";

/// Builds a program, of the package with its name, and returns its path. Errors name what the target needs and this
/// machine does not have.
pub(super) fn build(root: &Path, platform: &Platform, program: &str) -> Result<PathBuf, String> {
    let target = platform.target;
    check_standard_library(target)?;
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    let folder = metadata.target_directory.as_std_path();
    let mut command = cargo::command(root);
    command
        .args(["build", "--locked", "--offline", "--profile", PROFILE])
        .args(["--target", target, "--package", program])
        .args(["--bin", program])
        // C compilers write the time of the build into the allocator, unless this variable names another time. The
        // time is the same for each commit, because cargo does not compile C again when the variable changes.
        .env("SOURCE_DATE_EPOCH", "0")
        // With this variable, `cargo steersman` does not look for its sources on the machine that built it.
        .env("CARGO_STEERSMAN_PACKED", "1")
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", flags(root, folder, platform));
    if let Some((variable, linker)) = cross_linker(target)? {
        command.env(variable, linker);
    }
    let status = command
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err(format!(
            "{program} could not be built for {target}; the message above names the cause. A static program needs the \
             static C library of the target (libc.a: `libc6-dev` of Debian, `glibc-static` of Fedora), and a crate that \
             was never downloaded needs `cargo fetch --locked`"
        ));
    }
    let path = folder.join(target).join(PROFILE).join(program);
    let bytes = files::bytes(&path)?;
    if holds_sources(&bytes, root) {
        return Err(format!(
            "{}: the program holds a path below {}: leave it out if `CARGO_STEERSMAN_PACKED` is set",
            path.display(),
            root.display()
        ));
    }
    if platform.is_linux() && !elf::is_static(&bytes) {
        return Err(format!(
            "{}: the program needs a dynamic loader; build it with `-C target-feature=+crt-static`",
            path.display()
        ));
    }
    Ok(path)
}

/// Returns whether a program holds the path of a crate of this workspace.
fn holds_sources(program: &[u8], root: &Path) -> bool {
    let path = root.join("crates");
    let path = path.as_os_str().as_encoded_bytes();
    program.windows(path.len()).any(|part| part == path)
}

fn check_standard_library(target: &str) -> Result<(), String> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .map_err(|error| format!("rustc could not be started: {error}"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if output.status.success() && folder.is_dir() {
        return Ok(());
    }
    Err(format!(
        "rustc has no standard library for {target}; install it with `rustup target add {target}`"
    ))
}

/// Returns the flags of rustc, separated as `CARGO_ENCODED_RUSTFLAGS` wants them. They replace the paths of sources in
/// messages of panics, so that the program does not depend on its folders.
fn flags(root: &Path, target: &Path, platform: &Platform) -> OsString {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let mut flags = OsString::new();
    // The last of several fitting prefixes applies.
    let folders = [
        (Some(root), "."),
        (Some(target), "target"),
        (home.as_deref(), "cargo"),
    ];
    for (folder, name) in folders {
        let Some(folder) = folder else { continue };
        flags.push("--remap-path-prefix=");
        flags.push(folder);
        flags.push("=");
        flags.push(name);
        flags.push("\u{1f}");
    }
    // At a fixed address the program needs no relocations, which take time and memory at each start.
    flags.push(if platform.is_linux() {
        "-Ctarget-feature=+crt-static\u{1f}-Crelocation-model=static"
    } else {
        "-Ctarget-feature=-crt-static"
    });
    flags
}

/// Returns the linker of another target as a variable of cargo; `None` if this machine's own linker serves.
fn cross_linker(target: &str) -> Result<Option<(String, String)>, String> {
    let is_own = Platform::of_this_machine().is_some_and(|own| own.target == target);
    let name = target.to_uppercase().replace('-', "_");
    let variable = format!("CARGO_TARGET_{name}_LINKER");
    if is_own || std::env::var_os(&variable).is_some() {
        return Ok(None);
    }
    let (architecture, system) = target.split_once('-').unwrap_or((target, ""));
    if system.contains("linux") {
        let linker = format!("{architecture}-linux-gnu-gcc");
        if Command::new(&linker).arg("--version").output().is_ok() {
            return Ok(Some((variable, linker)));
        }
        return Err(format!(
            "{target} needs the cross compiler `{linker}` (`gcc-{}-linux-gnu` of Debian), or another one in {variable}",
            architecture.replace('_', "-")
        ));
    }
    Err(format!(
        "{target} needs its own system, or a linker for it in {variable}"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Platform, check_standard_library, cross_linker, flags, holds_sources};

    #[test]
    fn a_target_without_a_linker_is_refused_with_the_variable() {
        let error = cross_linker("riscv64-unknown-linux-gnu").unwrap_err();
        assert!(error.contains("`riscv64-linux-gnu-gcc`"), "{error}");
        assert!(
            error.contains("CARGO_TARGET_RISCV64_UNKNOWN_LINUX_GNU_LINKER"),
            "{error}"
        );
    }

    #[test]
    fn a_target_without_a_standard_library_is_refused_with_the_command() {
        let error = check_standard_library("no-such-target").unwrap_err();
        assert!(
            error.contains("`rustup target add no-such-target`"),
            "{error}"
        );
    }

    #[test]
    fn a_path_of_the_sources_is_found_in_a_program() {
        let program = b"\0/src/crates/tools/x\0./crates/server\0";
        assert!(holds_sources(program, Path::new("/src")));
        assert!(!holds_sources(program, Path::new("/elsewhere")));
    }

    #[test]
    fn programs_of_linux_are_static_and_hold_no_path_of_this_machine() {
        let [linux, mac] = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"].map(|target| {
            let platform = Platform::of(target).unwrap();
            flags(Path::new("/a"), Path::new("/b"), &platform)
                .into_string()
                .unwrap()
        });
        assert!(
            linux.starts_with("--remap-path-prefix=/a=.\u{1f}--remap-path-prefix=/b=target\u{1f}")
        );
        assert!(linux.contains("\u{1f}-Ctarget-feature=+crt-static\u{1f}"));
        assert!(mac.ends_with("\u{1f}-Ctarget-feature=-crt-static"));
    }
}
