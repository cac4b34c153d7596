//! Driver: finds the crate of an operator, builds it, and asks its program for a description.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steersman_cli::Description;

use crate::error::Error;
use crate::shell_words::shell_word;

/// The crate of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The folder of its `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// The name of the package, and of its program.
    pub(crate) name: String,
    /// The edition of Rust, such as `2024`.
    pub(crate) edition: String,
    /// The table `[package.metadata.steersman]`; null if there is none.
    pub(crate) metadata: Value,
    /// The folder of this framework's sources, if the crate depends on them by path.
    pub(crate) sources: Option<PathBuf>,
}

/// How a program is built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BuildOptions {
    /// Whether the network is not used.
    pub(crate) is_offline: bool,
    /// Whether the program is built for speed.
    pub(crate) is_release: bool,
}

impl Project {
    /// Finds the crate of a folder, which is mostly the present one.
    pub(crate) fn find(folder: &Path) -> Result<Self, Error> {
        let missing = |problem: String| Error::NoProject { problem };
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(missing(format!("{} has no Cargo.toml", folder.display())));
        }
        let mut command = Command::new(cargo());
        command
            .args([
                "metadata",
                "--no-deps",
                "--format-version",
                "1",
                "--manifest-path",
            ])
            .arg(&manifest);
        let output = run(&mut command, Stdio::piped(), "")?;
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let manifest = manifest
            .canonicalize()
            .map_err(Error::file(&manifest, "read"))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut own = packages.filter(|package| {
            let path = package["manifest_path"].as_str().map(Path::new);
            path.and_then(|path| path.canonicalize().ok()).as_ref() == Some(&manifest)
        });
        let Some(package) = own.next() else {
            return Err(missing(format!("{} is no package", manifest.display())));
        };
        let name = package["name"].as_str().unwrap_or_default();
        let targets = package["targets"].as_array().into_iter().flatten();
        let mut programs = targets.filter(|target| target["kind"] == serde_json::json!(["bin"]));
        if !programs.any(|program| program["name"] == name) {
            return Err(missing(format!(
                "the package {name} has no program of its name"
            )));
        }
        Ok(Self {
            folder: manifest.parent().unwrap_or(folder).to_owned(),
            name: name.to_owned(),
            edition: package["edition"].as_str().unwrap_or("2024").to_owned(),
            metadata: package["metadata"]["steersman"].clone(),
            sources: sources(package),
        })
    }

    /// Returns the command that builds the program. It prints the messages of the compiler to standard error, and JSON
    /// to standard output.
    pub(crate) fn build_command(&self, options: BuildOptions) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.folder).args([
            "build",
            "--message-format",
            "json-render-diagnostics",
            "--bin",
            &self.name,
        ]);
        command.args(options.is_offline.then_some("--offline"));
        command.args(options.is_release.then_some("--release"));
        command
    }

    /// Builds the program, and returns its path.
    pub(crate) fn build(&self, options: BuildOptions) -> Result<PathBuf, Error> {
        let mut command = self.build_command(options);
        let output = run(&mut command, Stdio::inherit(), "")?;
        self.built(&output.stdout)
    }

    /// Returns the path of the program from what the command of a build printed.
    pub(crate) fn built(&self, messages: &[u8]) -> Result<PathBuf, Error> {
        let messages = String::from_utf8_lossy(messages);
        let messages = messages.lines().rev().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            (message["target"]["name"] == *self.name).then_some(())?;
            Some(PathBuf::from(message["executable"].as_str()?))
        });
        let mut programs = messages;
        programs.next().ok_or_else(|| Error::NoProject {
            problem: format!("cargo built no program {}", self.name),
        })
    }
}

/// Returns the folder of this framework's sources, if a package depends on them by path.
fn sources(package: &Value) -> Option<PathBuf> {
    let dependencies = package["dependencies"].as_array()?;
    let own = dependencies
        .iter()
        .find(|dependency| dependency["name"] == "steersman")?;
    // The path is FOLDER/crates/framework/steersman.
    let sources = Path::new(own["path"].as_str()?).ancestors().nth(3)?;
    Some(sources.to_owned())
}

/// Asks a program for its description. Its errors are printed, or are in a pipe a part of the error.
pub(crate) fn describe(program: &Path, errors: Stdio) -> Result<Description, Error> {
    let advice = ": its message is above; a common cause is a setup that sends requests";
    let output = run(Command::new(program).arg("describe"), errors, advice)?;
    serde_json::from_slice(&output.stdout).map_err(|problem| Error::Description {
        program: program.display().to_string(),
        problem: problem.to_string(),
    })
}

/// Runs a program to its end, and returns what it printed.
fn run(command: &mut Command, errors: Stdio, advice: &str) -> Result<Output, Error> {
    let name = shown(command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let output = child
        .spawn()
        .and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|source| Error::Start {
        program: name.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(Error::Failed {
        program: name,
        status: output.status.to_string(),
        advice: match said.is_empty() {
            true => advice.to_owned(),
            false => format!(": {said}"),
        },
    })
}

/// Runs a program to its end; what it prints is printed.
pub(crate) fn run_to_end(command: &mut Command) -> Result<(), Error> {
    let program = shown(command);
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed {
            program,
            status: status.to_string(),
            advice: String::new(),
        }),
        Err(source) => Err(Error::Start { program, source }),
    }
}

/// Returns the words of a command as one types them.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| shell_word(&word.to_string_lossy()));
    let words: Vec<String> = words.collect();
    words.join(" ")
}

/// Returns the cargo that runs this program, or else the one on the path.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
