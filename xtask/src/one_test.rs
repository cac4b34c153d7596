//! Runs a test that implements a chore and takes its settings from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;

type Variables = Vec<(String, OsString)>;

/// A test of a package.
pub(crate) struct OneTest {
    package: &'static str,
    test: &'static str,
    /// Cargo's option for the binary of the test.
    binary: &'static [&'static str],
}

impl OneTest {
    /// Returns a test in the binary `it` of a package.
    pub(crate) const fn integration(package: &'static str, test: &'static str) -> Self {
        let binary = &["--test", "it"];
        Self {
            package,
            test,
            binary,
        }
    }

    /// Returns a test beside the code of a package.
    pub(crate) const fn unit(package: &'static str, test: &'static str) -> Self {
        let binary = &["--lib"];
        Self {
            package,
            test,
            binary,
        }
    }

    /// Runs the test with the given environment variables. The error of a failed test is `failure`, because the test
    /// prints the reason itself.
    pub(crate) fn run(
        &self,
        root: &Path,
        variables: Variables,
        failure: &str,
    ) -> Result<(), String> {
        let status = self
            .command(root, variables)?
            .status()
            .map_err(|error| format!("{} could not be started: {error}", self.test))?;
        if status.success() {
            Ok(())
        } else {
            Err(failure.to_owned())
        }
    }

    /// Replaces this process by the test, so that a signal to this process reaches the test and the shell waits until
    /// the test has cleaned up. Returns only if the test could not be started.
    #[cfg(unix)]
    pub(crate) fn exec(&self, root: &Path, variables: Variables) -> Result<(), String> {
        use std::os::unix::process::CommandExt as _;

        let error = self.command(root, variables)?.exec();
        Err(format!("{} could not be started: {error}", self.test))
    }

    /// Returns the command that runs the test binary. Cargo does not run it, because a signal would end
    /// cargo before the test has cleaned up.
    fn command(&self, root: &Path, variables: Variables) -> Result<Command, String> {
        let (program, folder) = self.build(root)?;
        self.check_exists(&program)?;
        let mut command = Command::new(program);
        command
            .args(["--exact", "--nocapture", self.test])
            // The test fails by a panic after it has printed the reason.
            .env("RUST_BACKTRACE", "0")
            .envs(variables)
            .current_dir(folder);
        Ok(command)
    }

    /// Checks that the binary has the test: with a name that it does not have, a test binary runs nothing and succeeds.
    fn check_exists(&self, program: &Path) -> Result<(), String> {
        let listed = Command::new(program)
            .args(["--list", "--exact", self.test])
            .output()
            .map_err(|error| format!("{} could not be started: {error}", program.display()))?;
        let expected = format!("{}: test", self.test);
        let tests = String::from_utf8_lossy(&listed.stdout);
        if tests.lines().any(|line| line == expected) {
            return Ok(());
        }
        Err(format!(
            "{} has no test `{}`: correct its name in xtask",
            self.package, self.test
        ))
    }

    /// Builds the binary of the test. Returns the path of the binary and the folder of
    /// the package, in which cargo runs tests.
    fn build(&self, root: &Path) -> Result<(PathBuf, PathBuf), String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["test", "--quiet", "--no-run", "-p", self.package])
            .args(self.binary)
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        let mut found = None;
        for message in Message::parse_stream(&built.stdout[..]) {
            if let Ok(Message::CompilerArtifact(artifact)) = message
                && artifact.profile.test
                && artifact.executable.is_some()
            {
                let folder = artifact.manifest_path.parent();
                let folder = folder.map_or_else(|| root.to_owned(), |at| at.into());
                found = artifact.executable.map(|path| (path.into(), folder));
            }
        }
        match found {
            Some(found) if built.status.success() => Ok(found),
            _ => Err(format!("the tests of {} could not be built", self.package)),
        }
    }
}
