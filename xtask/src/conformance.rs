//! Replays the recorded conversations, and says where servers answer otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The test that does it, and the variables by which it is told.
const TEST: &str = "golden::conformance::conformance";
const RUN: &str = "STEERSMAN_CONFORMANCE";

/// Runs the replayer of `steersman-apiserver`'s tests against the embedded server, and against a real
/// one where a kubeconfig names it or `KUBEBUILDER_ASSETS` has the binaries.
///
/// # Errors
/// Says that cargo could not be started, that a path does not exist, or that cases differ; the
/// differences are printed by then.
pub(crate) fn run(
    root: &Path,
    kubeconfig: Option<&Path>,
    filter: Option<&str>,
    cases: Option<&Path>,
) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([
            "test",
            "--quiet",
            "-p",
            "steersman-apiserver",
            "--test",
            "it",
        ])
        .args(["--", "--exact", "--nocapture", TEST])
        .env(RUN, "1")
        // It ends by a panic, and the summary before it says why.
        .env("RUST_BACKTRACE", "0")
        .current_dir(root);
    // The test runs in another folder.
    for (variable, path) in [("KUBECONFIG", kubeconfig), ("CASES", cases)] {
        if let Some(path) = path {
            command.env(format!("{RUN}_{variable}"), absolute(path)?);
        }
    }
    if let Some(filter) = filter {
        command.env(format!("{RUN}_FILTER"), filter);
    }
    let status = command
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("servers answer otherwise than recorded".to_owned())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))
}
