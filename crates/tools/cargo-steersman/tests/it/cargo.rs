//! Helpers that run commands in the folder of an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use toml_edit::{Array, DocumentMut, InlineTable, Table, value};

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

/// Gives an operator the profile and the features of the workspace, because cargo compiles a dependency again for
/// another profile, feature set or version. The tests' features are added to the program for the same reason.
pub(crate) fn share_dependencies(folder: &Path) {
    let own = folder.join("Cargo.toml");
    let mut text = std::fs::read_to_string(&own).unwrap();
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
    // A separate crate lists the features, because one crate can list each dependency only once.
    let mut manifest: DocumentMut = text.parse().unwrap();
    let mut beside = InlineTable::new();
    beside.insert("path", "../shared".into());
    manifest["dependencies"]["shared"] = value(beside);
    let mut shared: DocumentMut = "[package]\nname = \"shared\"\nedition = \"2024\"\n"
        .parse()
        .unwrap();
    let mut dependencies = Table::new();
    let of_workspace = features(&workspace(), &["--workspace", "--exclude", "xtask"]);
    for (number, package) in features(folder, &[]).into_keys().enumerate() {
        let Some(features) = of_workspace.get(&package) else {
            continue;
        };
        let mut dependency = InlineTable::new();
        dependency.insert("package", package.name.into());
        match package.folder {
            Some(folder) => dependency.insert("path", folder.into()),
            None => dependency.insert("version", format!("={}", package.version).into()),
        };
        dependency.insert("default-features", false.into());
        dependency.insert("features", features.iter().collect::<Array>().into());
        dependencies[&format!("shared-{number}")] = value(dependency);
    }
    // Cargo chooses the features of build scripts and derives apart from those of the program.
    shared["build-dependencies"] = dependencies.clone().into();
    shared["dependencies"] = dependencies.into();
    let beside = folder.with_file_name("shared");
    std::fs::create_dir_all(beside.join("src")).unwrap();
    std::fs::write(beside.join("src/lib.rs"), "").unwrap();
    std::fs::write(beside.join("Cargo.toml"), shared.to_string()).unwrap();
    std::fs::write(own, manifest.to_string()).unwrap();
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// The folder of a package of the workspace.
    folder: Option<String>,
}

/// Returns the packages that tests in a folder compile, each with its enabled features.
fn features(folder: &Path, members: &[&str]) -> BTreeMap<Package, BTreeSet<String>> {
    let words = [
        "tree",
        "--offline",
        "--prefix",
        "none",
        "--format",
        "{p}|{f}",
    ];
    let printed = cargo(folder, &[&words[..], members].concat());
    let mut found: BTreeMap<Package, BTreeSet<String>> = BTreeMap::new();
    // Lines such as `greeter v0.1.0 (/a/greeter)|default,json (*)` and `zstd-sys v2.0.16+zstd.1.5.7|legacy`.
    for (package, features) in printed.lines().filter_map(|line| line.split_once('|')) {
        let mut words = package.split_whitespace();
        let (name, version) = (words.next().unwrap(), words.next().unwrap());
        let version = version.split('+').next().unwrap().trim_start_matches('v');
        let path = words.find_map(|word| word.strip_prefix("(/")?.strip_suffix(')'));
        let package = Package {
            name: name.to_owned(),
            version: version.to_owned(),
            folder: path.map(|path| format!("/{path}")),
        };
        let features = features.trim_end_matches(" (*)").split(',');
        let features = features.filter(|feature| !feature.is_empty());
        let all = found.entry(package).or_default();
        all.extend(features.map(str::to_owned));
    }
    found
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
