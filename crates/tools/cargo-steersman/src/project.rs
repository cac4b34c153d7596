//! Driver: finds the crate of an operator, builds the crate, and reads the description of its program.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::{Value, json};
use steersman_description::Description;
use steersman_object::{json_items, json_text};

use crate::command_line::ProgramArgs;
use crate::error::Error;
use crate::shell_words::shell_word;

/// The list of the modules that explore an operator.
pub(crate) const EXPLORATIONS: &str = "tests/it/explore.rs";

/// The crate of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The folder that contains `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// The name of the package and of its program.
    pub(crate) name: String,
    pub(crate) edition: String,
    /// The table `[package.metadata.steersman]`; null if there is none.
    pub(crate) metadata: Value,
    /// The folder of this framework's sources, if the crate depends on them by path.
    pub(crate) sources: Option<PathBuf>,
}

impl Project {
    /// Finds the operator of the current folder.
    pub(crate) fn find() -> Result<Self, Error> {
        let folder = Path::new(".");
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            let problem = format!("{} has no Cargo.toml", folder.display());
            return Err(Error::NoProject(problem));
        }
        let mut command = Command::new(cargo());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        command.arg("--manifest-path").arg(&manifest);
        let output = run(&mut command, Stdio::piped(), "")?;
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let canonical = manifest.canonicalize();
        let manifest = canonical.map_err(Error::file(&manifest, "read"))?;
        let is_own = |package: &&Value| {
            let path = Path::new(json_text(&package["manifest_path"])).canonicalize();
            path.is_ok_and(|path| path == manifest)
        };
        let Some(package) = json_items(&metadata["packages"]).find(is_own) else {
            let problem = format!("{} is no package", manifest.display());
            return Err(Error::NoProject(problem));
        };
        let name = json_text(&package["name"]);
        let is_program =
            |target: &Value| target["kind"] == json!(["bin"]) && target["name"] == name;
        if !json_items(&package["targets"]).any(is_program) {
            let problem = format!("the package {name} has no program of its name");
            return Err(Error::NoProject(problem));
        }
        Ok(Self {
            folder: manifest.parent().unwrap_or(folder).to_owned(),
            name: name.to_owned(),
            edition: package["edition"].as_str().unwrap_or("2024").to_owned(),
            metadata: package["metadata"]["steersman"].clone(),
            sources: sources(package),
        })
    }

    /// Returns the command that builds the program, with JSON on standard output and messages on standard error.
    pub(crate) fn build_command(&self, args: &ProgramArgs, is_release: bool) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.folder).args([
            "build", "--message-format", "json-render-diagnostics", "--bin", &self.name,
        ]);
        command.args(args.offline.then_some("--offline"));
        command.args(is_release.then_some("--release"));
        command
    }

    pub(crate) fn build(&self, args: &ProgramArgs) -> Result<PathBuf, Error> {
        let mut command = self.build_command(args, false);
        let output = run(&mut command, Stdio::inherit(), "")?;
        self.built(&output.stdout)
    }

    /// Returns the path of the built program. `messages` is the standard output of the build command.
    pub(crate) fn built(&self, messages: &[u8]) -> Result<PathBuf, Error> {
        let messages = String::from_utf8_lossy(messages);
        let program = messages.lines().rev().find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let program = PathBuf::from(message["executable"].as_str()?);
            (message["target"]["name"] == *self.name).then_some(program)
        });
        let missing = || Error::NoProject(format!("cargo built no program {}", self.name));
        program.ok_or_else(missing)
    }
}

/// Returns the folder of this framework's sources, if a package depends on them by path.
fn sources(package: &Value) -> Option<PathBuf> {
    let mut dependencies = json_items(&package["dependencies"]);
    let own = dependencies.find(|dependency| dependency["name"] == "steersman")?;
    // The path is FOLDER/crates/framework/steersman.
    let sources = Path::new(own["path"].as_str()?).ancestors().nth(3)?;
    Some(sources.to_owned())
}

/// Asks a program for its description. `errors` is its standard error; text in a pipe becomes part of the error.
pub(crate) fn describe(program: &Path, errors: Stdio) -> Result<Description, Error> {
    let advice = ": its message is above; a common cause is a setup that sends requests";
    let output = run(Command::new(program).arg("describe"), errors, advice)?;
    serde_json::from_slice(&output.stdout).map_err(|problem| Error::Description {
        program: program.display().to_string(),
        problem: problem.to_string(),
    })
}

fn run(command: &mut Command, errors: Stdio, advice: &str) -> Result<Output, Error> {
    let name = shown(command);
    let output = command.stdin(Stdio::null()).stderr(errors).output();
    let output = output.map_err(Error::start(&name))?;
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

/// Runs a program to its end, with inherited output.
pub(crate) fn run_to_end(command: &mut Command) -> Result<(), Error> {
    let program = shown(command);
    let status = command.stdin(Stdio::null()).status();
    Error::check(&program, status.map_err(Error::start(&program))?)
}

/// Runs a program to its end without input and output.
pub(crate) fn silent(command: &mut Command) -> std::io::Result<ExitStatus> {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    silent.stderr(Stdio::null()).status()
}

/// Returns a command line as a user would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| shell_word(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the cargo that started this program, or else the cargo on the PATH.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
