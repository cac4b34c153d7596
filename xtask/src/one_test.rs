//! Runs one integration test that does a chore, and is told how by the environment.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;

/// A test in the binary `it` of a package.
pub(crate) struct OneTest {
    pub(crate) package: &'static str,
    pub(crate) test: &'static str,
}

impl OneTest {
    /// Runs it, with these variables set.
    ///
    /// # Errors
    /// Says that cargo could not be started, or, in the words of `failure`, that the test fails; the
    /// test has printed why by then.
    pub(crate) fn run(
        &self,
        root: &Path,
        told: impl IntoIterator<Item = (String, OsString)>,
        failure: &str,
    ) -> Result<(), String> {
        let status = self
            .command(root, told)?
            .status()
            .map_err(|error| format!("{} could not be started: {error}", self.test))?;
        if status.success() {
            Ok(())
        } else {
            Err(failure.to_owned())
        }
    }

    /// Runs it in the place of this process, so that a signal to this process reaches the test and
    /// nothing else has to wait while the test cleans up.
    ///
    /// # Errors
    /// Says that cargo or the test could not be started; a test that runs ends this process.
    #[cfg(unix)]
    pub(crate) fn become_it(
        &self,
        root: &Path,
        told: impl IntoIterator<Item = (String, OsString)>,
    ) -> Result<(), String> {
        use std::os::unix::process::CommandExt as _;

        let error = self.command(root, told)?.exec();
        Err(format!("{} could not be started: {error}", self.test))
    }

    /// The command that runs the test, without a cargo between, which would die of a signal and leave
    /// the test to itself.
    fn command(
        &self,
        root: &Path,
        told: impl IntoIterator<Item = (String, OsString)>,
    ) -> Result<Command, String> {
        let (program, folder) = self.build(root)?;
        let mut command = Command::new(program);
        command
            .args(["--exact", "--nocapture", self.test])
            // It ends by a panic, and what it printed before says why.
            .env("RUST_BACKTRACE", "0")
            .envs(told)
            .current_dir(folder);
        Ok(command)
    }

    /// Builds the binary of the package's integration tests, and returns its path and the package's
    /// folder, in which cargo runs tests.
    fn build(&self, root: &Path) -> Result<(PathBuf, PathBuf), String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo)
            .args(["test", "--quiet", "--no-run", "-p", self.package])
            .args([
                "--test",
                "it",
                "--message-format",
                "json-render-diagnostics",
            ])
            .current_dir(root)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        let mut found = None;
        if let Some(messages) = build.stdout.take() {
            for message in Message::parse_stream(BufReader::new(messages)) {
                if let Ok(Message::CompilerArtifact(artifact)) = message
                    && artifact.target.name == "it"
                {
                    let folder = artifact.manifest_path.parent();
                    let folder = folder.map_or_else(|| root.to_owned(), |at| at.into());
                    found = artifact.executable.map(|path| (path.into(), folder));
                }
            }
        }
        let built = build.wait().map_err(|error| format!("cargo: {error}"))?;
        match found {
            Some(found) if built.success() => Ok(found),
            _ => Err(format!("the tests of {} could not be built", self.package)),
        }
    }
}
