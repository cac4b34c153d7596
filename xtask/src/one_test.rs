//! Runs one integration test that does a chore, and is told how by the environment.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

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
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["test", "--quiet", "-p", self.package, "--test", "it"])
            .args(["--", "--exact", "--nocapture", self.test])
            // It ends by a panic, and what it printed before says why.
            .env("RUST_BACKTRACE", "0")
            .envs(told)
            .current_dir(root)
            .status()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(failure.to_owned())
        }
    }
}
