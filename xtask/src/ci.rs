//! Runs the steps of continuous integration, which only `.ci/run` lists.

use std::path::Path;
use std::process::Command;

/// Runs `.ci/run` with the named steps, or with all steps if `steps` is empty. The script prints the failed step.
pub(crate) fn run(root: &Path, steps: &[String]) -> Result<(), String> {
    let script = root.join(".ci/run");
    let status = Command::new(&script)
        .args(steps)
        .current_dir(root)
        .status()
        .map_err(|error| format!("{} could not be started: {error}", script.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(".ci/run ended with {status}"))
    }
}
